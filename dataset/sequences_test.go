package dataset

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// wordFields are a sentence of words, a label, and a paragraph of sentences.
var wordFields = []Field{{"words", tensor.Int64, []int64{1}, 1}, {"label", tensor.Int64, []int64{1}, 0}, {"text", tensor.Float32, []int64{2}, 2}}

// A document is a sample of wordFields: the number of its words, and of the rows of each sentence.
type document struct {
	words     int
	sentences []int
}

// lengthsOf makes a LoD level.
func lengthsOf(lengths ...int) []int64 {
	level := []int64{0}
	for _, n := range lengths {
		level = append(level, level[len(level)-1]+int64(n))
	}
	return level
}

// record encodes document number i. whole says whether the outermost levels, which have one sequence, are written too.
func (d document) record(t rapid.TB, i int, whole bool) []byte {
	t.Helper()
	words := make([]int64, d.words)
	for j := range words {
		words[j] = int64(100*i + j)
	}
	rows := 0
	for _, n := range d.sentences {
		rows += n
	}
	text := make([]float32, 2*rows)
	for j := range text {
		text[j] = float32(1000*i + j)
	}
	a, err := tensor.FromSlice(words, int64(d.words), 1)
	b, err2 := tensor.FromSlice([]int64{int64(i)}, 1)
	c, err3 := tensor.FromSlice(text, int64(rows), 2)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	c.SetLoD([][]int64{lengthsOf(d.sentences...)})
	if whole {
		a.SetLoD([][]int64{lengthsOf(d.words)})
		c.SetLoD([][]int64{lengthsOf(len(d.sentences)), lengthsOf(d.sentences...)})
	}
	return AppendRecord(nil, a, b, c)
}

// documents yields the records of a list.
func documents(t rapid.TB, list []document) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for i, d := range list {
			if !yield(Record{Number: int64(i), File: "docs", Bytes: d.record(t, i, i%2 == 0)}, nil) {
				return
			}
		}
	}
}

func TestBatchesOfSequences(t *testing.T) {
	list := []document{{2, []int{1, 2}}, {0, nil}, {3, []int{0, 1}}, {1, []int{1}}, {1, []int{0}}}
	var got []string
	for b, err := range newBatcher(t, BatchOptions{Fields: wordFields, Rows: 3}).Batches(documents(t, list), Part{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range b.Tensors {
			if err := tensor.CheckLoD(v); err != nil {
				t.Error(err)
			}
		}
		words, text := b.Tensors[0], b.Tensors[2]
		got = append(got, fmt.Sprintf("%d records: %v in %v, labels %v, %v in %v", b.Rows, words.Int64s(), words.LoD(), b.Tensors[1].Int64s(),
			text.Float32s(), text.LoD()))
	}
	want := []string{
		"3 records: [0 1 200 201 202] in [[0 2 2 5]], labels [0 1 2], [0 1 2 3 4 5 2000 2001] in [[0 2 2 4] [0 1 3 3 4]]",
		"2 records: [300 400] in [[0 1 2]], labels [3 4], [3000 3001] in [[0 1 2] [0 1 1]]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The parts of a batch of sequences are the batch, cut between sequences of the outermost level, however they are read.
func TestPartsOfSequencesMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) document {
			return document{rapid.IntRange(0, 6).Draw(rt, "words"), rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(rt, "sentences")}
		}), 1, 30).Draw(rt, "documents")
		rows, parts := rapid.IntRange(1, 9).Draw(rt, "rows"), rapid.IntRange(1, 5).Draw(rt, "parts")
		buffer := rapid.SampledFrom([]int{0, 4}).Draw(rt, "buffer")
		selected := rapid.Bool().Draw(rt, "selected")
		collect := func(part Part) (batches []string) {
			b := newBatcher(rt, BatchOptions{Fields: wordFields, Rows: rows, Slots: 2})
			seq := b.Batches(Shuffle(documents(rt, list), Shuffling{Buffer: buffer, Seed: 5, Pass: 1}), part)
			if selected {
				seq = b.Select(Selection{Part: part, Shuffling: Shuffling{Buffer: buffer, Seed: 5, Pass: 1},
					Order: func(from int64) iter.Seq2[[]Range, error] {
						return func(yield func([]Range, error) bool) { yield([]Range{{From: from, To: int64(len(list))}}, nil) }
					},
					Read: func(read []Range) iter.Seq2[Record, error] {
						return func(yield func(Record, error) bool) {
							for _, r := range read {
								for number := r.From; number < r.To; number++ {
									if !yield(Record{Number: number, Bytes: list[number].record(rt, int(number), false)}, nil) {
										return
									}
								}
							}
						}
					}})
			}
			for batch, err := range seq {
				if err != nil {
					rt.Fatal(err)
				}
				batches = append(batches, itemized(rt, batch))
			}
			return batches
		}
		whole := collect(Part{})
		together := make([]string, len(whole))
		for i := range parts {
			for j, batch := range collect(Part{i, parts}) {
				together[j] += batch
			}
		}
		if !slices.Equal(together, whole) {
			rt.Fatalf("parts make %q, the whole is %q", together, whole)
		}
	})
}

// itemized lists the samples of a batch, each with its words and sentences.
func itemized(t rapid.TB, b *Batch) string {
	t.Helper()
	out := ""
	words, text := b.Tensors[0], b.Tensors[2]
	for row := range b.Rows {
		w, s := words.LoD()[0][row:row+2], text.LoD()[0][row:row+2]
		out += fmt.Sprintf("%d:%v", b.Tensors[1].Int64s()[row], words.Int64s()[w[0]:w[1]])
		for sentence := s[0]; sentence < s[1]; sentence++ {
			rows := text.LoD()[1][sentence : sentence+2]
			out += fmt.Sprint(text.Float32s()[2*rows[0] : 2*rows[1]])
		}
		out += ";"
	}
	return out
}

func TestSequencesAreChecked(t *testing.T) {
	sequence := func(dims []int64, lod ...[]int64) []byte {
		n, _ := tensor.Count(dims)
		v, err := tensor.FromSlice(make([]int64, n), dims...)
		if err != nil {
			t.Fatal(err)
		}
		v.SetLoD(lod)
		return AppendRecord(nil, v)
	}
	for name, c := range map[string]struct {
		levels int
		record []byte
		says   string
	}{
		"one shape":       {0, sequence([]int64{1}, []int64{0, 1}), "layers.LoD"},
		"other rows":      {1, sequence([]int64{3, 2}), "got int64[3 2], want int64[-1 1]"},
		"more dims":       {1, sequence([]int64{3, 1, 1}), "want int64[-1 1]"},
		"two sequences":   {1, sequence([]int64{3, 1}, []int64{0, 1, 3}), "got 2 sequences, want one sequence"},
		"too few levels":  {3, sequence([]int64{3, 1}, []int64{0, 3}), "got 1 LoD levels, want 3, or 2"},
		"too many levels": {1, sequence([]int64{3, 1}, []int64{0, 1}, []int64{0, 3}), "got 2 LoD levels, want 1, or 0"},
	} {
		b := newBatcher(t, BatchOptions{Fields: []Field{{"words", tensor.Int64, []int64{1}, c.levels}}, Rows: 1})
		for _, err := range b.Batches(func(yield func(Record, error) bool) { yield(Record{File: "docs", Bytes: c.record}, nil) }, Part{}) {
			if !errors.Is(err, fault.ShapeMismatch) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `docs: record 0, variable "words"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A batch that grows beyond its memory is refused before that is allocated.
func TestSequencesAreBounded(t *testing.T) {
	list := []document{{words: 4}, {words: 200}, {words: 500}}
	b := newBatcher(t, BatchOptions{Fields: wordFields, Rows: 1, Slots: 1, MaxBytes: 4 << 10})
	batches := 0
	for batch, err := range b.Batches(documents(t, list), Part{}) {
		if batches++; batches <= 2 {
			if err != nil || batch.Tensors[0].Len() != list[batches-1].words {
				t.Fatalf("batch %d: %v", batches, err)
			}
			continue
		}
		if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "500 rows") {
			t.Errorf("got %v", err)
		}
	}
	if batches != 3 {
		t.Errorf("%d batches", batches)
	}
}

func TestBatchesOfSequencesAllocateLittle(t *testing.T) {
	list := []document{{20, []int{5, 9}}, {11, []int{4}}}
	record := list[0].record(t, 0, true)
	b := newBatcher(t, BatchOptions{Fields: wordFields, Rows: 8})
	allocated := testing.AllocsPerRun(20, func() {
		for _, err := range b.Batches(func(yield func(Record, error) bool) {
			for range 64 {
				if !yield(Record{Bytes: record}, nil) {
					return
				}
			}
		}, Part{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	// Eight batches, of two views each, and the iterators.
	if allocated > 8*8 {
		t.Errorf("%v allocations for 64 records in 8 batches", allocated)
	}
}

func TestFieldsOfSequences(t *testing.T) {
	for _, f := range []struct {
		field Field
		want  string
	}{{wordFields[0], "int64[1] in 1 LoD level"}, {wordFields[1], "int64[1]"}, {wordFields[2], "float32[2] in 2 LoD levels"}} {
		if f.field.String() != f.want {
			t.Errorf("got %v, want %s", f.field, f.want)
		}
	}
}
