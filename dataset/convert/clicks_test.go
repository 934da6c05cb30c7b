package convert

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// clicks is a RecordWriter that decodes samples of Clicks.
type clicks struct {
	t       testing.TB
	samples [][]*tensor.Tensor
}

func (c *clicks) Write(record []byte) error {
	c.t.Helper()
	tensors, err := dataset.DecodeRecord(record)
	if err != nil {
		c.t.Fatal(err)
	}
	c.samples = append(c.samples, tensors)
	return nil
}

func TestClicks(t *testing.T) {
	w := &clicks{t: t}
	n, err := Clicks(background, strings.NewReader("income,city,job,age\n>50K,Rome,,0\n<=50K,,Rome,-1.718281828\n"), w, ClicksOptions{
		Header: true, Label: "income", Positive: ">50K", Categories: []string{"job", "city"}, Numbers: []string{"age"}, Vocabulary: 1 << 40,
	})
	if err != nil || n != 2 || len(w.samples) != 2 {
		t.Fatalf("%d samples, error %v", n, err)
	}
	rome, empty := w.samples[0][0].Int64s(), w.samples[1][0].Int64s()
	if got := fmt.Sprint(w.samples[0][0].Dims(), w.samples[0][1].Float32s(), w.samples[0][2].Int64s(), w.samples[1][1].Float32s(),
		w.samples[1][2].Int64s()); got != "[2 1] [0] [1] [-1] [0]" {
		t.Errorf("samples are %s", got)
	}
	if all := []int64{rome[0], rome[1], empty[0], empty[1]}; len(slices.Compact(slices.Sorted(slices.Values(all)))) != 4 {
		t.Errorf("categories of two columns share ids: %v", all)
	}
}

// Ids are part of a trained model: another build, or another machine, must give the same.
func TestIDsOfClicksStay(t *testing.T) {
	w := &clicks{t: t}
	line := "1\t\t5\t68fd1e64\t\n" // empty columns of tabs are columns
	if _, err := Clicks(background, strings.NewReader(line), w, ClicksOptions{
		Comma: '\t', Label: "0", Numbers: []string{"1", "2"}, Categories: []string{"3", "4"}, Vocabulary: 1000001,
	}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.samples[0][0].Int64s(), w.samples[0][1].Float32s(), w.samples[0][2].Int64s()); got != "[952219 612398] [0 1.7917595] [1]" {
		t.Errorf("sample is %s", got)
	}
}

// Without a number of ids, the ids are keys: the same hashes, of 64 bits.
func TestKeysOfClicks(t *testing.T) {
	options := ClicksOptions{Label: "0", Categories: []string{"1"}}
	var keys, ids shown
	if _, err := Clicks(background, strings.NewReader("1,a\n0,b\n"), &keys, options); err != nil {
		t.Fatal(err)
	}
	options.Vocabulary = 1000
	if _, err := Clicks(background, strings.NewReader("1,a\n0,b\n"), &ids, options); err != nil {
		t.Fatal(err)
	}
	for i := range keys.lines {
		var key, id int64
		if _, err := fmt.Sscanf(keys.lines[i], "int64[1 1][%d]", &key); err != nil {
			t.Fatal(keys.lines[i], err)
		}
		if _, err := fmt.Sscanf(ids.lines[i], "int64[1 1][%d]", &id); err != nil || uint64(key)%1000 != uint64(id) || uint64(key)>>40 == 0 {
			t.Errorf("key %d and id %d: %v", key, id, err)
		}
	}
}

func TestClicksErrors(t *testing.T) {
	good := ClicksOptions{Label: "0", Categories: []string{"1"}, Numbers: []string{"2"}, Vocabulary: 10}
	with := func(change func(*ClicksOptions)) ClicksOptions {
		o := good
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		text    string
		options ClicksOptions
		kind    fault.Kind
		want    string
	}{
		"no number":      {"1,a,2\n0,b,x\n", good, fault.Corrupt, `line 2, variable "2"`},
		"infinity":       {"1,a,inf\n", good, fault.Corrupt, "line 1"},
		"ragged":         {"1,a,2\n1,a\n", good, fault.Corrupt, "line 2"},
		"unknown column": {"1,a,2\n", with(func(o *ClicksOptions) { o.Numbers = []string{"7"} }), fault.NotFound, `"7"`},
		"no label":       {"1,a,2\n", with(func(o *ClicksOptions) { o.Label = "" }), fault.NotFound, "column"},
		"no categories":  {"1,a,2\n", with(func(o *ClicksOptions) { o.Categories = nil }), fault.InvalidArgument, "at least one"},
		"no ids":         {"1,a,2\n", with(func(o *ClicksOptions) { o.Vocabulary = -1 }), fault.InvalidArgument, "at least one"},
	} {
		if _, err := Clicks(background, strings.NewReader(c.text), &clicks{t: t}, c.options); !errors.Is(err, c.kind) ||
			!strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %v: %s", name, err, c.kind, c.want)
		}
	}
}

func FuzzClicks(f *testing.F) {
	f.Add("a,b,c\n1,x,2.5\n", true)
	f.Add("1,,\n", false)
	f.Fuzz(func(t *testing.T, text string, header bool) {
		w := &clicks{t: t}
		n, err := Clicks(background, io.LimitReader(strings.NewReader(text), 1<<16), w, ClicksOptions{
			Header: header, Label: "0", Categories: []string{"1"}, Numbers: []string{"2"}, Vocabulary: 7,
		})
		if n != len(w.samples) {
			t.Fatalf("%d samples counted of %d", n, len(w.samples))
		}
		if err != nil && fault.KindOf(err) == fault.Internal {
			t.Fatalf("an error without a kind: %v", err)
		}
		for i, s := range w.samples {
			if id := s[0].Int64s()[0]; id < 0 || id >= 7 {
				t.Fatalf("sample %d has id %d of 7", i, id)
			}
		}
	})
}
