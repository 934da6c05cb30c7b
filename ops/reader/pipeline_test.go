package reader_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
)

func TestPipelineOf(t *testing.T) {
	block, read := chain([]string{"image", "label"}, digits(nil),
		stage{"create_shuffle_reader", attrs{"buffer_size": int32(500), "seed": int32(-7)}},
		stage{"create_batch_reader", attrs{"batch_size": int32(64), "drop_last": true}},
		multiPass(3), doubleBuffer(attrs{"capacity": int32(5)}))
	p := mustPipeline(t, block, read)
	fields := ""
	for _, f := range p.Fields {
		fields += fmt.Sprintf("%s %v%v ", f.Name, f.DType, f.Dims)
	}
	if fields != "image float32[784] label int64[1] " {
		t.Errorf("fields: %s", fields)
	}
	p.Fields = nil
	want := reader.Pipeline{Dataset: "digits", ShuffleBuffer: 500, ShuffleGroup: 1, ShuffleSeed: -7, Batch: 64, DropLast: true, Prefetch: 5, Passes: 3}
	if fmt.Sprint(p) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

func TestPipelineDefaults(t *testing.T) {
	block, read := chain([]string{"image", "label"}, digits(nil), batch(8))
	if p := mustPipeline(t, block, read); p.Passes != 1 || p.Prefetch != 0 || p.ShuffleBuffer != 0 || p.DropLast {
		t.Errorf("a chain of file and batch: %+v", p)
	}
	block, read = chain([]string{"image", "label"}, digits(nil), doubleBuffer(nil), batch(8))
	if p := mustPipeline(t, block, read); p.Prefetch != 2 {
		t.Errorf("a double buffer prepares %d batches ahead", p.Prefetch)
	}
}

// TestPassesMayStandAnywhere has the chain of Fluid, whose open_recordio_file puts the passes next to the file.
func TestPassesMayStandAnywhere(t *testing.T) {
	stages := []stage{digits(nil), shuffle(9), batch(8), doubleBuffer(nil)}
	for at := 1; at <= len(stages); at++ {
		block, read := chain([]string{"image", "label"}, slices.Insert(slices.Clone(stages), at, multiPass(4))...)
		if p := mustPipeline(t, block, read); p.Passes != 4 || p.ShuffleBuffer != 9 || p.Batch != 8 {
			t.Errorf("passes at %d: %+v", at, p)
		}
	}
}

func TestPipelineFaults(t *testing.T) {
	type build = func() (*program.Block, *program.Op)
	of := func(outputs []string, stages ...stage) build {
		return func() (*program.Block, *program.Op) { return chain(outputs, stages...) }
	}
	both := []string{"image", "label"}
	changed := func(change func(*program.Block, *program.Op)) build {
		return func() (*program.Block, *program.Op) {
			block, read := chain(both, digits(nil), shuffle(9), batch(8))
			change(block, read)
			return block, read
		}
	}
	for name, c := range map[string]struct {
		build build
		says  string
	}{
		"shuffle after batch": {of(both, digits(nil), batch(8), shuffle(9)), "before create_batch_reader"},
		"no batch":            {of(both, digits(nil), shuffle(9)), "create_batch_reader"},
		"two batches":         {of(both, digits(nil), batch(8), batch(8)), "a second create_batch_reader"},
		"two shuffles":        {of(both, digits(nil), shuffle(8), shuffle(8), batch(8)), "a second create_shuffle_reader"},
		"bad attribute":       {of(both, digits(nil), batch(-8)), "batch_size"},
		"outputs missing":     {of([]string{"image"}, digits(nil), batch(8)), "one for each field"},
		"no creator": {changed(func(b *program.Block, _ *program.Op) {
			b.Ops = b.Ops[1:]
		}), "no op before this one creates"},
		"circle": {changed(func(b *program.Block, _ *program.Op) {
			b.Ops[1].Inputs["UnderlyingReader"][0] = "reader_c"
		}), "no op before this one creates"},
		"own output": {changed(func(b *program.Block, _ *program.Op) {
			b.Ops[1].Inputs["UnderlyingReader"][0] = "reader_b"
		}), "no op before this one creates"},
		"two creators": {changed(func(b *program.Block, _ *program.Op) {
			b.Insert(0, b.Ops[0].Clone())
		}), "second op that creates"},
		"a tensor op": {changed(func(b *program.Block, _ *program.Op) {
			b.Ops[2].Type = "relu"
		}), "creates no readers"},
		"a read of a read": {changed(func(b *program.Block, _ *program.Op) {
			b.Ops[2].Type = "read"
		}), "creates no readers"},
		"no reader": {changed(func(_ *program.Block, read *program.Op) {
			read.Inputs = nil
		}), "no op before this one creates"},
		"not a read": {changed(func(_ *program.Block, read *program.Op) {
			read.Type = "fetch"
		}), "want read"},
		"of another block": {func() (*program.Block, *program.Op) {
			block, _ := chain(both, digits(nil), batch(8))
			_, read := chain(both, digits(nil), batch(8))
			return block, read
		}, "block 0"},
	} {
		_, err := reader.PipelineOf(c.build())
		var f *fault.Fault
		if !errors.As(err, &f) || f.Op == "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a fault of an op that says %q", name, err, c.says)
		}
	}
}

func TestFaultsNameTheLineOfTheUser(t *testing.T) {
	block, read := chain([]string{"image", "label"}, digits(nil), batch(8), shuffle(9))
	if _, err := reader.PipelineOf(block, read); err == nil || !strings.HasPrefix(err.Error(), "train.go:3: op create_shuffle_reader") {
		t.Errorf("got %v", err)
	}
}

func ExamplePipelineOf() {
	block, read := chain([]string{"image", "label"}, digits(nil), shuffle(1000), batch(64))
	p, err := reader.PipelineOf(block, read)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("batches of %d from %q, %d samples shuffled at a time\n", p.Batch, p.Dataset, p.ShuffleBuffer)
	// Output: batches of 64 from "digits", 1000 samples shuffled at a time
}
