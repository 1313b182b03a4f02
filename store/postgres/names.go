package postgres

import (
	"time"

	"svc/store/rollup"
)

// boundNames replaces the names of waiting rows, in their order, that are beyond the bound of
// their month, which counts the merged names first.
func (d *data) boundNames(rows []rollup.Entry, words *rollup.Words) error {
	names, loaded := rollup.Names{}, map[time.Time]bool{}
	for i := range rows {
		k := &rows[i].Key
		by, at := k.Table.Names(), k.Table.Level().Start(k.Bucket)
		if by == rollup.None {
			continue
		}
		if month := rollup.Month(at); !loaded[month] {
			loaded[month] = true
			if err := d.mergedNames(names, month); err != nil {
				return err
			}
		}
		k.Env = words.Number(names.Of(by, at, words.Word(k.Env)))
	}
	return nil
}

// mergedNames adds the names of the merged days of a month.
func (d *data) mergedNames(names rollup.Names, month time.Time) error {
	var table int16
	var name []byte
	return d.each([]any{&table, &name}, func() error {
		names.Of(rollup.Table(table).Names(), month, string(name))
		return nil
	}, `SELECT DISTINCT tbl, env FROM rollups WHERE tenant = $1 AND tbl = ANY($2) AND bucket >= $3 AND bucket < $4`, d.n,
		[]int16{int16(rollup.DayTool), int16(rollup.DayRule), int16(rollup.DayClient)}, int64(rollup.ByDay.Bucket(month)), int64(rollup.ByDay.Bucket(month.AddDate(0, 1, 0))))
}

// waitingNames calls fn with the waiting rows of a dimension of names in a window: their names,
// within the bound, and their encoded statistics.
func (d *data) waitingNames(p rollup.Plan, by rollup.Dimension, fn func(name string, row []byte) error) error {
	words := rollup.NewWords()
	var hours []rollup.Entry
	var rows [][]byte
	var bucket int64
	var name, row []byte
	err := d.each([]any{&bucket, &name, &row}, func() error {
		hours = append(hours, rollup.Entry{Key: rollup.Key{Table: by.FinestTable(), Bucket: uint32(bucket), Env: words.Number(string(name))}})
		rows = append(rows, append([]byte(nil), row...))
		return nil
	}, `SELECT bucket, env, data FROM waiting_rollups WHERE tenant = $1 AND tbl = $2 ORDER BY n, place`, d.n, int16(by.FinestTable()))
	if err != nil {
		return err
	}
	if err := d.boundNames(hours, words); err != nil {
		return err
	}
	for i := range hours {
		if at := rollup.ByHour.Start(hours[i].Key.Bucket); at.Before(p.From) || !at.Before(p.To) {
			continue
		}
		if err := fn(words.Word(hours[i].Key.Env), rows[i]); err != nil {
			return err
		}
	}
	return nil
}
