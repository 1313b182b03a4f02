package audit

import (
	"context"
	"os"
	"testing"
)

// One writer: encode, hash and write(2).
func BenchmarkWrite(b *testing.B) {
	for _, row := range []struct {
		name  string
		chain bool
	}{{"chain", true}, {"no chain", false}} {
		b.Run(row.name, func(b *testing.B) {
			c := testConfig(b)
			c.Chain, c.MaxSizeMB = row.chain, 0
			l := mustOpen(b, c, Options{})
			r := sample(1)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Write(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sixteen writers that share the file.
func BenchmarkWrite16(b *testing.B) {
	c := testConfig(b)
	c.MaxSizeMB = 0
	l := mustOpen(b, c, Options{})
	b.SetParallelism(8) // of two processors
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		r := sample(1)
		for pb.Next() {
			if err := l.Write(context.Background(), r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// The text form alone.
func BenchmarkEncode(b *testing.B) {
	r := sample(1)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.appendBody(buf[:0])
	}
}

// Decoding a line, as the reporter does.
func BenchmarkDecode(b *testing.B) {
	line := lineOf(sample(1))
	var r Record
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Decode(line, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// Verifying a log of 64 MiB.
func BenchmarkVerify(b *testing.B) {
	c := testConfig(b)
	c.MaxSizeMB = 16
	l := mustOpen(b, c, Options{})
	for i := range 130_000 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			b.Fatal(err)
		}
	}
	mustClose(b, l)
	var size int64
	files, err := trail(c.Path)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f.Path)
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	b.SetBytes(size)
	b.ResetTimer()
	for b.Loop() {
		v, err := verifyPath(context.Background(), c.Path, VerifyOptions{})
		if err != nil || !v.OK() {
			b.Fatal(v, err)
		}
	}
}
