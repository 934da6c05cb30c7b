package reader_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestBatchesHaveAnOpenExtentInFront(t *testing.T) {
	for name, c := range map[string]struct {
		stages []stage
		want   string
	}{
		"samples":   {[]stage{digits(nil)}, "float32[784] int64[1]"},
		"shuffled":  {[]stage{digits(nil), shuffle(100)}, "float32[784] int64[1]"},
		"batches":   {[]stage{digits(nil), batch(64)}, "float32[-1 784] int64[-1 1]"},
		"all":       {[]stage{digits(nil), shuffle(9), batch(64), doubleBuffer(nil), multiPass(2)}, "float32[-1 784] int64[-1 1]"},
		"images":    {[]stage{digits(attrs{"shape_concat": []int32{1, 28, 28, 1}, "ranks": []int32{3, 1}}), batch(2)}, "float32[-1 1 28 28] int64[-1 1]"},
		"scalars":   {[]stage{digits(attrs{"shape_concat": []int32{784}, "ranks": []int32{1, 0}}), batch(2)}, "float32[-1 784] int64[-1]"},
		"Fluid 64s": {[]stage{digits(attrs{"shape_concat": []int64{784, 1}, "ranks": []int64{1, 1}}), batch(2)}, "float32[-1 784] int64[-1 1]"},
	} {
		block, _ := chain([]string{"image", "label"}, c.stages...)
		known, err := infer(block)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := known["image"].String() + " " + known["label"].String(); got != c.want {
			t.Errorf("%s: read yields %s, want %s", name, got, c.want)
		}
		if fields := known["reader_a"].Fields; len(fields) != 2 || slices.Contains(fields[0].Dims, program.Unknown) {
			t.Errorf("%s: a batch changed the samples of the file reader: %v", name, fields)
		}
	}
}

func TestBatchesOfSequencesHaveTheirLevels(t *testing.T) {
	block, read := chain([]string{"words", "label"}, digits(attrs{"shape_concat": []int32{1, 1}, "lod_levels": []int32{2, 0}}), shuffle(9), batch(4))
	known, err := infer(block)
	if err != nil {
		t.Fatal(err)
	}
	if words, label := known["words"], known["label"]; words.LoDLevel != 2 || !slices.Equal(words.Dims, []int64{program.Unknown, 1}) || label.LoDLevel != 0 {
		t.Errorf("read yields %+v and %+v", words, label)
	}
	if p := mustPipeline(t, block, read); p.Fields[0].LoDLevel != 2 || !slices.Equal(p.Fields[0].Dims, []int64{1}) || p.Fields[1].LoDLevel != 0 {
		t.Errorf("the pipeline has the fields %+v", p.Fields)
	}
}

func TestInferFaults(t *testing.T) {
	long := make([]int32, 16)
	for i := range long {
		long[i] = 1
	}
	for name, c := range map[string]struct {
		stages []stage
		kind   fault.Kind
		says   string
	}{
		"no dataset":        {[]stage{digits(attrs{"dataset": ""})}, fault.InvalidArgument, "dataset"},
		"no tensors":        {[]stage{digits(attrs{"ranks": []int32{}})}, fault.InvalidArgument, "ranks"},
		"ranks too long":    {[]stage{digits(attrs{"ranks": []int32{1, 2}})}, fault.InvalidArgument, "ranks"},
		"ranks too short":   {[]stage{digits(attrs{"ranks": []int32{1, 0}})}, fault.InvalidArgument, "ranks"},
		"negative rank":     {[]stage{digits(attrs{"ranks": []int32{3, -1}})}, fault.InvalidArgument, "ranks"},
		"no room for batch": {[]stage{digits(attrs{"ranks": []int32{16, 0}, "shape_concat": long})}, fault.InvalidArgument, "ranks"},
		"levels missing":    {[]stage{digits(attrs{"lod_levels": []int32{0}})}, fault.InvalidArgument, "lod_levels"},
		"negative level":    {[]stage{digits(attrs{"lod_levels": []int32{-1, 0}})}, fault.InvalidArgument, "lod_levels"},
		"too many levels":   {[]stage{digits(attrs{"lod_levels": []int32{9, 0}})}, fault.InvalidArgument, "lod_levels"},
		"types missing":     {[]stage{digits(attrs{"dtypes": []int32{5, 5, 5}})}, fault.InvalidArgument, "dtypes"},
		"half floats":       {[]stage{digits(attrs{"dtypes": []int32{4, 3}})}, fault.InvalidArgument, "dtypes"},
		"type overflow":     {[]stage{digits(attrs{"dtypes": []int64{1<<32 + 5, 3}})}, fault.InvalidArgument, "dtypes"},
		"open sample":       {[]stage{digits(attrs{"shape_concat": []int32{-1, 1}})}, fault.InvalidArgument, "shape_concat"},
		"empty sample":      {[]stage{digits(attrs{"shape_concat": []int32{0, 1}})}, fault.InvalidArgument, "shape_concat"},
		"huge sample": {[]stage{digits(attrs{"shape_concat": []int64{math.MaxInt64, 4}, "ranks": []int32{2, 0}})}, fault.InvalidArgument,
			"shape_concat"},
		"batch of none":    {[]stage{digits(nil), batch(0)}, fault.InvalidArgument, "batch_size"},
		"negative shuffle": {[]stage{digits(nil), shuffle(-4)}, fault.InvalidArgument, "buffer_size"},
		"no pass":          {[]stage{digits(nil), multiPass(0)}, fault.InvalidArgument, "pass_num"},
		"huge prefetch":    {[]stage{digits(nil), doubleBuffer(attrs{"capacity": int32(math.MaxInt32)})}, fault.InvalidArgument, "capacity"},
		"no prefetch":      {[]stage{digits(nil), doubleBuffer(attrs{"capacity": int32(0)})}, fault.InvalidArgument, "capacity"},
		"size as string":   {[]stage{digits(nil), {"create_batch_reader", attrs{"batch_size": "64"}}}, fault.TypeMismatch, "batch_size"},
		"size not set":     {[]stage{digits(nil), {"create_batch_reader", nil}}, fault.InvalidProgram, "batch_size"},
	} {
		block, _ := chain([]string{"image", "label"}, c.stages...)
		_, err := infer(block)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that names %s", name, err, c.kind, c.says)
		}
	}
}

func TestReadFaults(t *testing.T) {
	block, _ := chain([]string{"image"}, digits(nil), batch(8))
	if _, err := infer(block); !errors.Is(err, fault.InvalidProgram) {
		t.Errorf("one output for two fields: %v", err)
	}
	for name, m := range map[string]ops.Meta{
		"a tensor":                {Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}},
		"a reader without fields": {Kind: program.Reader},
	} {
		_, read := chain([]string{"image"}, digits(nil))
		if _, err := ops.Infer(read, func(string) (ops.Meta, bool) { return m, true }); !errors.Is(err, fault.TypeMismatch) {
			t.Errorf("read of %s: %v", name, err)
		}
	}
}

// TestHostileAttributes sets every attribute of every op to values of every type: an error or none, but no panic.
func TestHostileAttributes(t *testing.T) {
	values := []program.Attr{nil, int32(-1), int64(math.MinInt64), int64(math.MaxInt64), "", "x", true, float32(math.NaN()),
		[]int32{-1, 2147483647}, []int64{math.MaxInt64, math.MinInt64},
		[]string{"a", "b"}, []float32{1}, program.BlockIndex(7), []program.BlockIndex{-1}}
	for _, s := range []stage{digits(nil), shuffle(4), batch(4), doubleBuffer(nil), multiPass(4)} {
		def, _ := ops.Lookup(s.opType)
		for _, a := range def.Attrs {
			for _, v := range values {
				stages := []stage{digits(nil), batch(4)}
				changed := stage{s.opType, attrs{a.Name: v}}
				for name, old := range s.attrs {
					if name != a.Name {
						changed.attrs[name] = old
					}
				}
				if s.opType == stages[0].opType {
					stages[0] = changed
				} else {
					stages = append(stages[:1], changed)
				}
				block, read := chain([]string{"image", "label"}, stages...)
				_, _ = infer(block)
				_, _ = reader.PipelineOf(block, read)
			}
		}
	}
}

func TestFeedAndFetch(t *testing.T) {
	tensorMeta := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}}
	run := func(opType string, col program.Attr, x ops.Meta) (*ops.Shapes, error) {
		op := &program.Op{Type: opType, Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"y"}}, Attrs: attrs{"col": col}}
		return ops.Infer(op, func(string) (ops.Meta, bool) { return x, true })
	}
	if s, err := run("feed", int32(0), ops.Meta{Kind: program.FeedMinibatch}); err != nil || s.Outs("Out")[0].Kind != 0 {
		t.Errorf("feed infers %+v, %v; the declaration of its output must stand", s, err)
	}
	if s, err := run("fetch", int32(2), tensorMeta); err != nil || s.Outs("Out")[0].Kind != program.FetchList {
		t.Errorf("fetch infers %+v, %v; want a fetch list", s, err)
	}
	for _, c := range []struct {
		opType string
		col    program.Attr
		x      ops.Meta
		kind   fault.Kind
	}{
		{"feed", int32(0), tensorMeta, fault.TypeMismatch},
		{"fetch", int32(0), ops.Meta{Kind: program.FetchList}, fault.TypeMismatch},
		{"feed", int32(-1), ops.Meta{Kind: program.FeedMinibatch}, fault.InvalidArgument},
		{"fetch", "0", tensorMeta, fault.TypeMismatch},
	} {
		if _, err := run(c.opType, c.col, c.x); !errors.Is(err, c.kind) {
			t.Errorf("%s of %v at %v: %v, want %v", c.opType, c.x, c.col, err, c.kind)
		}
	}
}
