package dataset

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

type recordList [][]byte

func (l *recordList) Write(record []byte) error {
	*l = append(*l, slices.Clone(record))
	return nil
}

// Records of a window come by length, and those of one length in their order. Groups of a shuffle are the batches of that order.
func TestRecordsComeByLength(t *testing.T) {
	var list recordList
	w, err := NewByLength(&list, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, rows := range []int64{5, 2, 9, 2, 7, 1} {
		words, err := tensor.FromSlice(make([]int64, rows), rows, 1)
		if err != nil {
			t.Fatal(err)
		}
		words.SetLoD([][]int64{{0, rows}})
		number, err := tensor.FromSlice([]int64{int64(i)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(AppendRecord(nil, words, number)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, record := range list {
		streams, err := ParseRecord(record, nil)
		if err != nil {
			t.Fatal(err)
		}
		number, err := tensor.New(tensor.Int64, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := streams[1].CopyInto(number, 0); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%d", number.Int64s()[0], streams[0].Dims[0]))
	}
	if want := []string{"1:2", "3:2", "0:5", "2:9", "5:1", "4:7"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Groups stay together in a shuffle, and a group that is not whole stays last. Whoever knows only numbers knows which records come first.
func TestGroupsStayTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		group := rapid.IntRange(2, 5).Draw(rt, "group")
		by := Shuffling{Buffer: group * rapid.IntRange(1, 4).Draw(rt, "groups"), Group: group, Seed: rapid.Uint64().Draw(rt, "seed")}
		n := rapid.IntRange(0, 50).Draw(rt, "n")
		got := order(t, Shuffle(numbered(n), by))
		for i := 0; i+group <= len(got); i += group {
			for k := range group {
				if got[i+k] != got[i]+int64(k) || got[i]%int64(group) != 0 {
					rt.Fatalf("%+v: %v", by, got)
				}
			}
		}
		for i := n - n%group; i < n; i++ {
			if got[i] != int64(i) {
				rt.Fatalf("%+v: %v", by, got)
			}
		}
		first := rapid.IntRange(0, n).Draw(rt, "first")
		var known []int64
		for _, r := range ShuffledFirst(int64(first), int64(n), by) {
			for i := r.From; i < r.To; i++ {
				known = append(known, i)
			}
		}
		slices.Sort(known)
		want := slices.Clone(got[:first])
		slices.Sort(want)
		if !slices.Equal(known, want) {
			rt.Fatalf("%+v: the first %d are %v, want %v", by, first, known, want)
		}
	})
}
