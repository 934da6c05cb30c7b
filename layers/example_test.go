package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// show prints the ops of a model, one a line, as type(inputs) -> outputs.
func show(m *layers.Model) {
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, op := range p.Global().Ops {
		fmt.Println(op.Type, op.InputNames(), "->", op.OutputNames())
	}
}

func Example() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(13))
	y := layers.Data(m, "y", layers.Dims(1))
	prediction := layers.FC(x, 1)
	loss := layers.Mean(layers.SquareErrorCost(prediction, y), layers.Name("loss"))
	fmt.Println(loss)
	show(m)
	// Output:
	// loss float32[1]
	// mul [x fc_0.w_0] -> [fc_0.tmp_0]
	// elementwise_add [fc_0.tmp_0 fc_0.b_0] -> [fc_0.tmp_1]
	// elementwise_sub [fc_0.tmp_1 y] -> [square_error_cost_0.tmp_0]
	// square [square_error_cost_0.tmp_0] -> [square_error_cost_0.tmp_1]
	// mean [square_error_cost_0.tmp_1] -> [loss]
}

// All mistakes are reported together, each at the line that made it. What follows from a mistake is not reported.
func ExampleModel_Program() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(13))
	hidden := layers.FC(x, 8, layers.IsTest())
	layers.Mean(layers.FC(hidden, 1))
	layers.Embedding(x, 1000, 16)
	_, err := m.Program()
	fmt.Println(err)
	// Output:
	// 2 faults:
	//   layers/example_test.go:43: layer fc: invalid argument: got option IsTest, want one of Act, Param, Bias, NoBias, NumFlattenDims, Name
	//   layers/example_test.go:45: layer embedding, variable "x": type mismatch: got ids x float32[-1 13], want int64; declare them with layers.DType(tensor.Int64)
}

func ExampleFC() {
	m := layers.NewModel()
	image := layers.Data(m, "image", layers.Dims(28, 28))
	fmt.Println(layers.FC(image, 10, layers.Act("softmax"), layers.Name("digits")))
	// Output: digits float32[-1 10]
}

func ExampleFCs() {
	m := layers.NewModel()
	user := layers.Data(m, "user", layers.Dims(32))
	movie := layers.Data(m, "movie", layers.Dims(64))
	layers.FCs([]layers.Variable{user, movie}, 200, layers.Act("tanh"))
	show(m)
	// Output:
	// mul [user fc_0.w_0] -> [fc_0.tmp_0]
	// mul [movie fc_0.w_1] -> [fc_0.tmp_1]
	// sum [fc_0.tmp_0 fc_0.tmp_1] -> [fc_0.tmp_2]
	// elementwise_add [fc_0.tmp_2 fc_0.b_0] -> [fc_0.tmp_3]
	// tanh [fc_0.tmp_3] -> [fc_0.tmp_4]
}

// Layers share a parameter when they name the same one.
func ExampleEmbedding() {
	m := layers.NewModel()
	table := layers.Param(layers.ParamAttr{Name: "words", Initializer: layers.Uniform(-0.1, 0.1)})
	first := layers.Data(m, "first", layers.Dims(1), layers.DType(tensor.Int64))
	second := layers.Data(m, "second", layers.Dims(1), layers.DType(tensor.Int64))
	layers.Concat([]layers.Variable{layers.Embedding(first, 5000, 32, table), layers.Embedding(second, 5000, 32, table)}, 1)
	show(m)
	// Output:
	// lookup_table [first words] -> [embedding_0.tmp_0]
	// lookup_table [second words] -> [embedding_1.tmp_0]
	// concat [embedding_0.tmp_0 embedding_1.tmp_0] -> [concat_0.tmp_0]
}

// Clicks of users whose numbers nobody knows before: keys of a table that grows to 1 million rows. A user has a row from his third step on, and until he was not
// seen for 100,000 steps.
func ExampleSparseEmbedding() {
	m := layers.NewModel()
	user := layers.Data(m, "user", layers.Dims(1), layers.DType(tensor.Int64))
	layers.SparseEmbedding(user, 1_000_000, 16, layers.Param(layers.ParamAttr{Name: "users"}), layers.CountFilterEntry(3), layers.EvictUnseen(100_000), layers.EvictOldest())
	show(m)
	// Output:
	// lookup_sparse_table [user users.index users.keys users] -> [sparse_embedding_0.tmp_0]
}

// A table in half the bytes: its values are bfloat16, and what is computed with them is float32.
func ExampleStoreBFloat16() {
	m := layers.NewModel()
	word := layers.Data(m, "word", layers.Dims(1), layers.DType(tensor.Int64))
	rows := layers.Embedding(word, 1_000_000, 16, layers.Sparse(), layers.Distributed(), layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "words"}))
	table, _ := m.Variable("words")
	fmt.Println(table)
	fmt.Println(rows)
	// Output:
	// words bfloat16[1000000 16]
	// embedding_0.tmp_0 float32[-1 16]
}

// Pairs of a user and an item are looked up by two hashes each, so that few pairs share both of their rows.
func ExampleHash() {
	m := layers.NewModel()
	pair := layers.Data(m, "pair", layers.Dims(2), layers.DType(tensor.Int64))
	rows := layers.Embedding(layers.Hash(pair, 100_000, 2), 100_000, 8, layers.Param(layers.ParamAttr{Name: "pairs"}))
	show(m)
	fmt.Println(rows.Dims())
	// Output:
	// hash [pair] -> [hash_0.tmp_0]
	// lookup_table [hash_0.tmp_0 pairs] -> [embedding_0.tmp_0]
	// [-1 2 8]
}

// Op appends what no layer offers.
func ExampleOp() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	inverse := layers.Op(m, "reciprocal", layers.In{"X": {x}}, nil).One("Out")
	fmt.Println(inverse)
	// Output: reciprocal_0.tmp_0 float32[-1 6]
}

// The batch axis comes first, and its extent is left open.
func ExampleData() {
	m := layers.NewModel()
	fmt.Println(layers.Data(m, "image", layers.Dims(1, 28, 28)))
	fmt.Println(layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64)))
	// Output:
	// image float32[-1 1 28 28]
	// label int64[-1 1]
}

// OpInto writes to variables that exist, here to a state that counts steps.
func ExampleOpInto() {
	s := newSketch()
	steps := s.State("steps", tensor.Float32, []int64{1}, layers.Constant(41))
	layers.OpInto(s.Model, "increment", layers.In{"X": {steps}}, layers.Attrs{"step": 1.0}, layers.In{"Out": {steps}})
	s.print(steps)
	// Output: [1] [42]
}

func ExampleNewVariables() {
	s := newSketch()
	x := s.numbers("x", 4, 1, 2, 3, 4)
	halves := layers.NewVariables(s.Model, "half", 2)
	layers.OpInto(s.Model, "split", layers.In{"X": {x}}, layers.Attrs{"num": 2, "axis": 1}, layers.In{"Out": halves})
	s.print(halves...)
	// Output:
	// [1 2] [1 2]
	// [1 2] [3 4]
}
