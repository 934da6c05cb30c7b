package reader_test

import (
	"maps"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// attrs keeps tables short.
type attrs = map[string]program.Attr

// A stage is one op of a chain of readers.
type stage struct {
	opType string
	attrs  attrs
}

// digits is a file reader of images and labels, as MNIST has them.
func digits(change attrs) stage {
	a := attrs{"dataset": "digits", "shape_concat": []int32{784, 1}, "ranks": []int32{1, 1}, "lod_levels": []int32{0, 0},
		"dtypes": []int32{int32(tensor.Float32), int32(tensor.Int64)}}
	maps.Copy(a, change)
	return stage{"create_recordio_file_reader", a}
}

func shuffle(size int32) stage   { return stage{"create_shuffle_reader", attrs{"buffer_size": size}} }
func batch(size int32) stage     { return stage{"create_batch_reader", attrs{"batch_size": size}} }
func doubleBuffer(a attrs) stage { return stage{"create_double_buffer_reader", a} }
func multiPass(passes int32) stage {
	return stage{"create_multi_pass_reader", attrs{"pass_num": passes}}
}

// chain builds a block of readers that end in a read op with the given outputs.
func chain(outputs []string, stages ...stage) (*program.Block, *program.Op) {
	block := program.New().Global()
	below := ""
	for i, s := range stages {
		name := "reader_" + string(rune('a'+i))
		op := block.Append(&program.Op{Type: s.opType, Outputs: map[string][]string{"Out": {name}}, Attrs: maps.Clone(s.attrs)})
		op.SetLine("train.go:" + string(rune('1'+i)))
		if i > 0 {
			op.Inputs = map[string][]string{"UnderlyingReader": {below}}
		}
		below = name
	}
	read := block.Append(&program.Op{Type: "read", Inputs: map[string][]string{"Reader": {below}}, Outputs: map[string][]string{"Out": outputs},
		Attrs: map[string]program.Attr{"throw_eof_exp": true, "drop_last": true}}) // Fluid's, without effect
	return block, read
}

// infer runs the inference of all ops of a block in order and returns what is known of every variable.
func infer(block *program.Block) (map[string]ops.Meta, error) {
	known := map[string]ops.Meta{}
	for _, op := range block.Ops {
		s, err := ops.Infer(op, func(name string) (ops.Meta, bool) { m, ok := known[name]; return m, ok })
		if err != nil {
			return nil, err
		}
		for i, name := range op.Outputs["Out"] {
			known[name] = s.Outs("Out")[i]
		}
	}
	return known, nil
}

func mustPipeline(t *testing.T, block *program.Block, read *program.Op) reader.Pipeline {
	t.Helper()
	p, err := reader.PipelineOf(block, read)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
