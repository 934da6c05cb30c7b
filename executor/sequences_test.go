package executor_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestAnLSTMLearnsTheOrderOfWords(t *testing.T) {
	p, loss, _ := sentiment(t, 0.02)
	local := executor.New()
	defer local.Close()
	random, total := rand.New(rand.NewPCG(1, 2)), float32(0)
	for step := range 150 {
		lengths := []int64{9, 2, 5, 7, 3, 6, 4, 8, 2, 5, 3, 4}
		random.Shuffle(len(lengths), func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
		out, err := local.Run(t.Context(), p, sentences(random, lengths...), loss)
		if err != nil {
			t.Fatal(err)
		}
		if step >= 140 {
			total += out[0].Float32s()[0] / 10
		}
	}
	if total > 0.1 {
		t.Errorf("the loss of the last steps is %v, where guessing gives 0.69", total)
	}
}

// TestSequencesDoNotDependOnTheirBatch feeds sentences together and in two halves; what the LSTM makes of each has the same bits, on any number
// of workers.
func TestSequencesDoNotDependOnTheirBatch(t *testing.T) {
	p, _, hidden := sentiment(t, 0)
	lengths := []int64{4, 1, 9, 3, 3, 17, 2, 5}
	whole := sentences(rand.New(rand.NewPCG(5, 6)), lengths...)
	run := func(feed executor.Feed, options ...executor.Option) *tensor.Tensor {
		t.Helper()
		local := executor.New(options...)
		defer local.Close()
		out, err := local.Run(t.Context(), p, feed, hidden)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	want := run(whole)
	if !slices.Equal(want.LoD()[0], whole["words"].LoD()[0]) {
		t.Errorf("what is fetched has the LoD %v", want.LoD())
	}
	var halves []float32
	for _, half := range [][2]int{{0, 3}, {3, 8}} {
		halves = append(halves, run(part(t, whole, half[0], half[1])).Float32s()...)
	}
	for name, got := range map[string][]float32{
		"in halves":      halves,
		"on 3 workers":   run(whole, executor.WithWorkers(3), executor.WithGrain(0)).Float32s(),
		"without tricks": run(whole, executor.WithoutFusion()).Float32s(),
	} {
		if !slices.Equal(got, want.Float32s()) {
			t.Errorf("%s the bits are others", name)
		}
	}
}

// TestPreparedStepsFollowTheLoD feeds batches of as many rows and sequences, cut differently, through one plan.
func TestPreparedStepsFollowTheLoD(t *testing.T) {
	p, loss, hidden := sentiment(t, 0.01)
	random := rand.New(rand.NewPCG(7, 8))
	feeds := []executor.Feed{sentences(random, 3, 5, 2), sentences(random, 1, 1, 8), sentences(random, 4, 0, 6)}
	local, other := executor.New(), executor.New()
	defer local.Close()
	defer other.Close()
	prepared, err := local.Prepare(t.Context(), p, feeds[0], loss, hidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, feed := range feeds {
		got, err := prepared.Run(t.Context(), feed)
		if err != nil {
			t.Fatal(err)
		}
		want, err := other.Run(t.Context(), p, feed, loss, hidden)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0].Float32s(), want[0].Float32s()) || !slices.Equal(got[1].Float32s(), want[1].Float32s()) {
			t.Errorf("offsets %v: loss %v, want %v", feed["words"].LoD(), got[0].Float32s(), want[0].Float32s())
		}
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(10, func() { _, err = prepared.Run(ctx, feeds[1]) }); err != nil || n != 0 {
		t.Errorf("%v allocations a step, %v", n, err)
	}
	if _, err := prepared.Run(t.Context(), sentences(random, 5, 5)); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("another number of sequences: %v", err)
	}
}

func TestWrongSequencesAreRefused(t *testing.T) {
	p, loss, _ := sentiment(t, 0.01)
	local := executor.New()
	defer local.Close()
	for name, c := range map[string]struct {
		lod  [][]int64
		kind fault.Kind
		want []string
	}{
		"none":          {nil, fault.InvalidArgument, []string{"op lstm", `variable "fc_0.tmp_1"`, "without LoD", "SetLoD"}},
		"too short":     {[][]int64{{0, 3, 9}}, fault.ShapeMismatch, []string{`variable "words"`, "ends at 9"}},
		"falling":       {[][]int64{{0, 11, 10}}, fault.ShapeMismatch, []string{`variable "words"`, "falls from 11 to 10"}},
		"starting late": {[][]int64{{1, 4, 10}}, fault.ShapeMismatch, []string{`variable "words"`, "starts at 1"}},
		"two levels":    {[][]int64{{0, 2}, {0, 4, 10}}, fault.ShapeMismatch, []string{"op lstm", "one LoD level"}},
		"too many":      {[][]int64{{0, 1, 4, 10}}, fault.ShapeMismatch, []string{"label"}},
	} {
		feed := sentences(rand.New(rand.NewPCG(9, 9)), 4, 6)
		feed["words"].SetLoD(c.lod)
		_, err := local.Run(t.Context(), p, feed, loss)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}

// TestADeclaredLevelIsNeeded builds the model without layers.LoD.
func TestADeclaredLevelIsNeeded(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(8))
	layers.SequencePool(x, "sum")
	if _, err := m.Program(); err == nil || !strings.Contains(err.Error(), "layers.LoD(1)") {
		t.Errorf("a pool of rows that form no sequences: %v", err)
	}
}

func TestAPlanOfSequencesIsDescribed(t *testing.T) {
	p, _, _ := sentiment(t, 0.01)
	var text strings.Builder
	if err := executor.DescribePlan(t.Context(), &text, p, 7, 1); err != nil || !strings.Contains(text.String(), "sequence_pool") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// sentiment is the model that tells whether a sentence is good or bad: an LSTM over its words, and the largest of each of its outputs.
func sentiment(t *testing.T, rate float64) (p *program.Program, loss string, hidden string) {
	t.Helper()
	m := layers.NewModel().Seed(3)
	words := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	h, _ := layers.DynamicLSTM(layers.FC(layers.Embedding(words, vocabulary, 8), 32), 32, layers.Name("hidden"))
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.SequencePool(h, "max"), 2), label)
	mean := layers.Mean(cost, layers.Name("loss"))
	optimizer.Adam(rate).Minimize(mean)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p, mean.Name(), h.Name()
}

const vocabulary = 20

// sentences makes sentences of these lengths. The label of one says whether word 1 comes before word 2 in it; the other words mean nothing.
func sentences(random *rand.Rand, lengths ...int64) executor.Feed {
	offsets, words, labels := []int64{0}, []int64{}, []int64{}
	for _, n := range lengths {
		sentence := make([]int64, n)
		for i := range sentence {
			sentence[i] = 3 + random.Int64N(vocabulary-3)
		}
		label := random.Int64N(2)
		if n >= 2 {
			at := random.Perm(int(n))[:2]
			slices.Sort(at)
			sentence[at[0]], sentence[at[1]] = 2-label, 1+label
		} else {
			label = 0
		}
		words, labels, offsets = append(words, sentence...), append(labels, label), append(offsets, offsets[len(offsets)-1]+n)
	}
	w, _ := tensor.FromSlice(words, int64(len(words)), 1)
	w.SetLoD([][]int64{offsets})
	l, _ := tensor.FromSlice(labels, int64(len(labels)), 1)
	return executor.Feed{"words": w, "label": l}
}

// TestTrainingFromRecordsOfSequences trains from record files, shuffled and in batches, and feeds the same batches to another executor.
func TestTrainingFromRecordsOfSequences(t *testing.T) {
	build := func(fromFiles bool) (*program.Program, string) {
		m := layers.NewModel().Seed(3)
		var words, label layers.Variable
		if fromFiles {
			data := layers.OpenDataset(m, "train", layers.Field("words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)),
				layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
			read := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(data, 7, 5), 4)))
			words, label = read[0], read[1]
		} else {
			words = layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
			label = layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
		}
		h, _ := layers.DynamicLSTM(layers.FC(layers.Embedding(words, vocabulary, 8), 32), 32)
		cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.SequencePool(h, "max"), 2), label)
		loss := layers.Mean(cost, layers.Name("loss"))
		optimizer.Adam(0.01).Minimize(loss)
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return p, loss.Name()
	}
	lengths := []int64{4, 1, 9, 3, 3, 17, 2, 5, 1, 1, 6, 30, 2}
	whole := sentences(rand.New(rand.NewPCG(5, 6)), lengths...)
	path := filepath.Join(t.TempDir(), "train-0")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recordio.NewWriter(file, recordio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range lengths {
		one := part(t, whole, i, i+1)
		label, err := one["label"].Reshape(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(dataset.AppendRecord(nil, one["words"], label)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}

	p, loss := build(true)
	trained, other := executor.New(executor.WithWorkers(2)), executor.New()
	defer trained.Close()
	defer other.Close()
	var losses []float32
	summary, err := trained.Train(t.Context(), p, executor.TrainOptions{Data: map[string][]string{"train": {path}}, Passes: 2, Fetch: []string{loss}},
		func(s executor.StepResult) error {
			losses = append(losses, s.Fetched[0].Float32s()[0])
			return nil
		})
	if err != nil || summary.Records != 26 || summary.Steps != 8 {
		t.Fatalf("%+v, %v", summary, err)
	}
	fed, loss := build(false)
	for pass := range 2 {
		order := make([]int, len(lengths))
		for i := range order {
			order[i] = i
		}
		var records []dataset.Record
		for _, i := range order {
			records = append(records, dataset.Record{Number: int64(i)})
		}
		order = order[:0]
		for r := range dataset.Shuffle(func(yield func(dataset.Record, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}, dataset.Shuffling{Buffer: 7, Seed: 5, Pass: uint64(pass)}) {
			order = append(order, int(r.Number))
		}
		for batch := range slices.Chunk(order, 4) {
			out, err := other.Run(t.Context(), fed, chosen(t, whole, batch), loss)
			if err != nil {
				t.Fatal(err)
			}
			if out[0].Float32s()[0] != losses[0] {
				t.Fatalf("pass %d: from files the loss is %v, fed %v", pass, losses[0], out[0].Float32s())
			}
			losses = losses[1:]
		}
	}
	for _, v := range fed.Global().Vars() {
		if a, ok := trained.Scope().Find(v.Name); ok && v.IsParameter {
			if b, ok := other.Scope().Find(v.Name); !ok || !slices.Equal(a.Float32s(), b.Float32s()) {
				t.Errorf("%s differs", v.Name)
			}
		}
	}
}

// TestABatchWithoutTokens trains on sentences of no words.
func TestABatchWithoutTokens(t *testing.T) {
	p, loss, _ := sentiment(t, 0.01)
	local := executor.New()
	defer local.Close()
	out, err := local.Run(t.Context(), p, sentences(rand.New(rand.NewPCG(1, 1)), 0, 0), loss)
	if err != nil || out[0].Float32s()[0] <= 0 {
		t.Errorf("%v, %v", out, err)
	}
}

// TestPlansOfSequencesShareMemory trains batches of ever other lengths: the memory that remains is that of the largest.
func TestPlansOfSequencesShareMemory(t *testing.T) {
	p, loss, _ := sentiment(t, 0.01)
	local := executor.New()
	defer local.Close()
	random := rand.New(rand.NewPCG(3, 4))
	step := func(n int64) {
		t.Helper()
		if _, err := local.Run(t.Context(), p, sentences(random, n, 2*n, 3), loss); err != nil {
			t.Fatal(err)
		}
	}
	step(20_000)
	held := heap()
	for n := range int64(12) {
		step(19_000 + n)
	}
	if grown := heap() - held; grown > held/2 {
		t.Errorf("12 more shapes take %d bytes in addition to %d", grown, held)
	}
}

// heap is how many bytes live objects take.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// chosen joins sentences of a batch by hand.
func chosen(t *testing.T, feed executor.Feed, which []int) executor.Feed {
	t.Helper()
	offsets, words, labels := []int64{0}, []int64{}, []int64{}
	for _, i := range which {
		one := part(t, feed, i, i+1)
		words, labels = append(words, one["words"].Int64s()...), append(labels, one["label"].Int64s()...)
		offsets = append(offsets, int64(len(words)))
	}
	w, err := tensor.FromSlice(words, int64(len(words)), 1)
	if err != nil {
		t.Fatal(err)
	}
	w.SetLoD([][]int64{offsets})
	l, err := tensor.FromSlice(labels, int64(len(labels)), 1)
	if err != nil {
		t.Fatal(err)
	}
	return executor.Feed{"words": w, "label": l}
}

// part returns sentences [from, to) of a batch.
func part(t *testing.T, feed executor.Feed, from, to int) executor.Feed {
	t.Helper()
	offsets := feed["words"].LoD()[0]
	words, err := feed["words"].Rows(offsets[from], offsets[to])
	if err != nil {
		t.Fatal(err)
	}
	labels, err := feed["label"].Rows(int64(from), int64(to))
	if err != nil {
		t.Fatal(err)
	}
	moved := make([]int64, to-from+1)
	for i := range moved {
		moved[i] = offsets[from+i] - offsets[from]
	}
	words.SetLoD([][]int64{moved})
	return executor.Feed{"words": words, "label": labels}
}

// TestLengthsOfSequencesMakeRows trains a program with as many rows as the lengths of sequences say, on batches of equal shapes and different lengths.
func TestLengthsOfSequencesMakeRows(t *testing.T) {
	m := layers.NewModel().Seed(1)
	x := layers.Data(m, "x", layers.Dims(1), layers.LoD(1))
	y := layers.SequenceExpand(x, x, layers.Name("y")) // a sequence of n rows, n times
	padded, _ := layers.SequencePad(x, layers.FillConstant(m, -1, []int64{1}), layers.Name("padded"))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	feed := func(offsets ...int64) executor.Feed {
		rows, err := tensor.FromSlice([]float32{1, 2, 3, 4}, 4, 1)
		if err != nil {
			t.Fatal(err)
		}
		rows.SetLoD([][]int64{offsets})
		return executor.Feed{"x": rows}
	}
	local := executor.New()
	defer local.Close()
	for range 2 { // the second time with plans that are kept
		for _, c := range []struct {
			feed      executor.Feed
			y, padded []float32
			lod       []int64
		}{
			{feed(0, 1, 4), []float32{1, 2, 3, 4, 2, 3, 4, 2, 3, 4}, []float32{1, -1, -1, 2, 3, 4}, []int64{0, 1, 4, 7, 10}},
			{feed(0, 3, 4), []float32{1, 2, 3, 1, 2, 3, 1, 2, 3, 4}, []float32{1, 2, 3, 4, -1, -1}, []int64{0, 3, 6, 9, 10}},
			{feed(0, 2, 4), []float32{1, 2, 1, 2, 3, 4, 3, 4}, []float32{1, 2, 3, 4}, []int64{0, 2, 4, 6, 8}},
		} {
			got, err := local.Run(t.Context(), p, c.feed, y.Name(), padded.Name())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got[0].Float32s(), c.y) || !slices.Equal(got[1].Float32s(), c.padded) || !slices.Equal(got[0].LoD()[0], c.lod) {
				t.Errorf("%v of %v and %v, want %v, %v and %v", got[0], got[0].LoD(), got[1], c.y, c.lod, c.padded)
			}
		}
	}
	prepared, err := local.Prepare(t.Context(), p, feed(0, 1, 4), y.Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.Run(t.Context(), feed(0, 1, 4)); err != nil {
		t.Error(err)
	}
	if _, err := prepared.Run(t.Context(), feed(0, 2, 4)); fault.KindOf(err) != fault.ShapeMismatch {
		t.Errorf("a plan ran on offsets that it was not compiled for: %v", err)
	}
	if _, err := local.Run(t.Context(), p, feed(0, 5, 4), y.Name()); fault.KindOf(err) != fault.ShapeMismatch {
		t.Errorf("offsets that fall: %v", err)
	}
}

// A feed with other LoD levels than declared is told what to do about it.
func TestFeedsOfOtherLevelsAreToldWhatToDo(t *testing.T) {
	lod := [][]int64{{0, 2}, {0, 1, 3}}
	for _, c := range []struct {
		declared, fed int
		want          string
	}{{0, 1, "feed the rows without offsets"}, {1, 2, "leave out the offsets of the outer levels"}, {1, 0, "feed the offsets of the sequences"}, {2, 1, "offsets of all levels"}} {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(1), layers.LoD(c.declared))
		layers.Scale(x, 2, 0)
		p := finished(t, m)
		value, err := tensor.FromSlice([]float32{1, 2, 3}, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		value.SetLoD(lod[2-c.fed:])
		if err := executor.CheckSequences(p, executor.Feed{"x": value}); fault.KindOf(err) != fault.ShapeMismatch || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d levels declared, %d fed: %v, want %q", c.declared, c.fed, err, c.want)
		}
	}
}
