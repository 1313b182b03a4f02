package detect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// nhsNumber returns a random NHS number, or one with a wrong check digit.
func nhsNumber(r *rand.Rand, wrong bool) string {
	for {
		d := []byte(drawText(r, figures, 10))
		if nhs(d) != wrong && slices.Min(d) < slices.Max(d) {
			return string(d)
		}
	}
}

// nifNumber returns a random NIF behind a first character: a digit, or X, Y, Z for a NIE.
func nifNumber(r *rand.Rand, first byte, shift int) string {
	text := string(first) + drawText(r, figures, 7)
	n := 0
	fmt.Sscanf(strings.NewReplacer("X", "0", "Y", "1", "Z", "2").Replace(text), "%d", &n)
	return text + string(nifLetters[(n+shift)%23])
}

// cpfNumber returns a random CPF in its usual grouping.
func cpfNumber(r *rand.Rand) string {
	for {
		if d := drawText(r, figures, 11); cpf([]byte(d)) {
			return d[:3] + "." + d[3:6] + "." + d[6:9] + "-" + d[9:]
		}
	}
}

// TestNationalIdentityNumbersAreFound: NHS numbers, Spanish NIF and NIE and Brazilian CPF, by check
// digit and a word for them; a CPF and a NIF in their own grouping need none.
func TestNationalIdentityNumbersAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	plain := strings.NewReplacer(".", "", "-", "").Replace
	for range 200 {
		n, f, c := nhsNumber(r, false), nifNumber(r, figures[1+r.IntN(9)], 0), cpfNumber(r)
		e := nifNumber(r, "XYZ"[r.IntN(3)], 0)
		dotted := f[:2] + "." + f[2:5] + "." + f[5:8] + "-" + f[8:]
		spaced := n[:3] + " " + n[3:6] + " " + n[6:]
		for _, row := range []struct {
			entity              Entity
			before, text, after string
		}{
			{NHSNumber, "NHS number ", n, "."}, {NHSNumber, "NHS No: ", spaced, ", GP Dr Ames"}, {NHSNumber, `{"nhs_number":"`, n, `"}`}, {NHSNumber, "nhs;", strings.ReplaceAll(spaced, " ", "-"), ";"},
			{NIF, "NIF: ", f, ""}, {NIF, "con DNI ", f[:8] + "-" + f[8:], ", vecina"}, {NIF, "con dni ", strings.ToLower(f), "."}, {NIF, "titular ", dotted, "."},
			{NIF, "NIE ", e, " (residente)"}, {NIF, "nie=", e[:8] + "-" + e[8:], "&x"},
			{CPF, "cliente ", c, ", SP"}, {CPF, `{"doc":"`, c, `"}`}, {CPF, "CPF ", plain(c), "\n"},
		} {
			text := row.before + row.text + row.after
			got := NewScanner().Scan(nil, []byte(text))
			if want := (Match{row.entity, len(row.before), len(row.before) + len(row.text)}); len(got) != 1 || got[0] != want {
				t.Fatalf("%q: got %v, want %v", text, got, want)
			}
		}
		for name, value := range map[string]string{"nhsNumber": n, "nif": f, "documento_identidad": e, "cpf": plain(c)} {
			if got := NewScanner().ScanValue(nil, name, []byte(value)); len(got) != 1 || got[0].End != len(value) {
				t.Fatalf("the value %q of a member %s: %v", value, name, got)
			}
		}
	}
	for name, want := range map[string]Entity{"nhs_number": NHSNumber, "UK_NHS": NHSNumber, "ES_NIE": NIF, "br_cpf": CPF} {
		if e, ok := ParseEntity(name); e != want || !ok {
			t.Errorf("%s: %q, %v", name, e, ok)
		}
	}
}

// TestWhatIsNoNationalIdentityNumber: without a word for it, with a wrong check digit, or as a part
// of something longer, it is none.
func TestWhatIsNoNationalIdentityNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	s := NewScanner(NHSNumber, NIF, CPF)
	for range 200 {
		n, f, e, c := nhsNumber(r, false), nifNumber(r, '4', 0), nifNumber(r, 'X', 0), cpfNumber(r)
		wrong := c[:13] + string('0'+(c[13]-'0'+1)%10)
		for _, text := range []string{
			"order " + n, "call 415 555 2671", "the NHS has " + nhsNumber(r, true) + " members", "nhs build " + n + "7", "nhs " + n + "-4f2a",
			"part " + f, "serial " + e, "NIF " + nifNumber(r, '4', 1), "NIE " + nifNumber(r, 'Y', 5), "dni " + f + "7", "dni a" + f,
			"row " + strings.NewReplacer(".", "", "-", "").Replace(c), "CPF " + wrong, "cpf 111.111.111-11", "cliente " + c + "7", "v" + c,
		} {
			if got := s.Scan(nil, []byte(text)); len(got) != 0 {
				t.Fatalf("%q: %v", text, got)
			}
		}
	}
}
