package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		options CSVOptions
		want    string
	}{
		"last column is the label": {"1,2.5,3\n4,5,6\n", CSVOptions{LabelDType: tensor.Int64},
			"[1 2.5] int64[1] [3][]; [4 5] int64[1] [6][]; "},
		"no newline at the end": {"1,2", CSVOptions{LabelDType: tensor.Float32}, "[1] float32[1] [][2]; "},
		"label by name": {"y, a ,b\n7,1,2\n", CSVOptions{Header: true, Label: "y", LabelDType: tensor.Int64},
			"[1 2] int64[1] [7][]; "},
		"label by index": {"7,1,2\n", CSVOptions{Label: "0", LabelDType: tensor.Int64}, "[1 2] int64[1] [7][]; "},
		"features in an order of their own": {"a,b,c,d\n1,2,3,4\n",
			CSVOptions{Header: true, Label: "c", Features: []string{"d", "a"}, LabelDType: tensor.Float32},
			"[4 1] float32[1] [][3]; "},
		"semicolons and quotes": {"\"1\"; 2\n", CSVOptions{Comma: ';', LabelDType: tensor.Int64}, "[1] int64[1] [2][]; "},
		"header only":           {"a,b\n", CSVOptions{Header: true, LabelDType: tensor.Int64}, ""},
		"nothing":               {"", CSVOptions{LabelDType: tensor.Int64}, ""},
	} {
		w := &kept{t: t}
		n, err := CSV(background, strings.NewReader(c.text), w, c.options)
		var got strings.Builder
		for i, sample := range w.samples {
			fmt.Fprintf(&got, "%v %s %v%v; ", w.features(i), sample[1], sample[1].Int64s(), sample[1].Float32s())
		}
		if err != nil || n != len(w.samples) || got.String() != c.want {
			t.Errorf("%s: %d samples %s, want %s, error %v", name, n, got.String(), c.want, err)
		}
	}
}

func TestCSVErrorsNameTheLine(t *testing.T) {
	int64s := CSVOptions{LabelDType: tensor.Int64}
	for name, c := range map[string]struct {
		text    string
		options CSVOptions
		kind    fault.Kind
		want    string
	}{
		"no number":        {"1,2\nx,3\n", int64s, fault.Corrupt, `line 2, variable "0": corrupt data: got "x"`},
		"label no integer": {"1,2.5\n", int64s, fault.Corrupt, `line 1, variable "1": corrupt data: got "2.5", want an integer`},
		"named column":     {"a,b\n1,2\n\n\n,2\n", CSVOptions{Header: true, LabelDType: tensor.Int64}, fault.Corrupt, `line 5, variable "a"`},
		"column of texts":  {"a,b\nx,2\n", CSVOptions{Header: true, LabelDType: tensor.Int64}, fault.Corrupt, `got "x", want a number that fits into float32; a column of texts or ids becomes the keys of a table that grows with --keys a`},
		"empty key":        {"u,b\n7,2\n,2\n", CSVOptions{Header: true, Keys: []string{"u"}, LabelDType: tensor.Int64}, fault.Corrupt, `line 3, variable "u": corrupt data: got "", want a text`},
		"no key":           {"u,b\n-1,2\n", CSVOptions{Header: true, Keys: []string{"u"}, LabelDType: tensor.Int64}, fault.Corrupt, `line 2, variable "u": corrupt data: got "-1"`},
		"infinity":         {"inf,1\n", int64s, fault.Corrupt, "line 1"},
		"too large":        {"1e39,1\n", int64s, fault.Corrupt, "float32"},
		"ragged":           {"1,2\n1,2,3\n", int64s, fault.Corrupt, "line 2"},
		"open quote":       {"1,2\n\"1,2\n", int64s, fault.Corrupt, "line 2"},
		"one column":       {"1\n", int64s, fault.InvalidArgument, "no features"},
		"unknown label":    {"a,b\n", CSVOptions{Header: true, Label: "c", LabelDType: tensor.Int64}, fault.NotFound, `"c"`},
		"unknown feature":  {"1,2\n", CSVOptions{Features: []string{"2"}, LabelDType: tensor.Int64}, fault.NotFound, `"2"`},
		"label type":       {"1,2\n", CSVOptions{LabelDType: tensor.Bool}, fault.InvalidArgument, "bool"},
		"many columns":     {strings.Repeat("1,", maxColumns) + "1\n", int64s, fault.TooLarge, "columns"},
	} {
		if _, err := CSV(background, strings.NewReader(c.text), &kept{t: t}, c.options); !errors.Is(err, c.kind) ||
			!strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %v: %s", name, err, c.kind, c.want)
		}
	}
}

// zeros is an endless row.
type zeros struct{ read int }

func (z *zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	z.read += len(b)
	return len(b), nil
}

func TestCSVRefusesAnEndlessLine(t *testing.T) {
	z := &zeros{}
	if _, err := CSV(background, z, &kept{t: t}, CSVOptions{LabelDType: tensor.Int64}); !errors.Is(err, fault.TooLarge) {
		t.Error(err)
	}
	if z.read > maxLine+64<<10 {
		t.Errorf("%d bytes were read", z.read)
	}
}

func TestCSVEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := CSV(ctx, strings.NewReader("1,2\n"), &kept{t: t}, CSVOptions{LabelDType: tensor.Int64}); !errors.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) error { return f.err }

func TestErrorsOfTheWriterArePassedOn(t *testing.T) {
	full := errors.New("disk full")
	n, err := CSV(background, strings.NewReader("1,2\n"), failing{full}, CSVOptions{LabelDType: tensor.Int64})
	if n != 0 || !errors.Is(err, full) {
		t.Errorf("%d samples, error %v", n, err)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("a,b,c\n1,2.5,3\n", true)
	f.Add("1;2\n", false)
	f.Add("\"1\n2\",3\r\n", false)
	f.Fuzz(func(t *testing.T, text string, header bool) {
		w := &kept{t: t}
		n, err := CSV(background, io.LimitReader(strings.NewReader(text), 1<<16), w, CSVOptions{Header: header, LabelDType: tensor.Float32})
		if n != len(w.samples) {
			t.Fatalf("%d samples counted of %d", n, len(w.samples))
		}
		if err != nil && fault.KindOf(err) == fault.Internal {
			t.Fatalf("an error without a kind: %v", err)
		}
		for i := range w.samples {
			if len(w.features(i)) != len(w.features(0)) {
				t.Fatalf("sample %d has %d features, the first %d", i, len(w.features(i)), len(w.features(0)))
			}
		}
	})
}
