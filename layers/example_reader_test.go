package layers_test

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// digits reads pictures and what they show.
func digits(m *layers.Model) layers.Reader {
	return layers.OpenDataset(m, "train", layers.Field("image", layers.Dims(784)), layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
}

func ExampleRead() {
	m := layers.NewModel()
	for _, field := range layers.Read(layers.Batch(digits(m), 100)) {
		fmt.Println(field)
	}
	// Output:
	// image float32[-1 784]
	// label int64[-1 1]
}

// The size is that of the global batch: on four trainers each takes 25 of these 100.
func ExampleBatch() {
	m := layers.NewModel()
	fmt.Println(layers.Batch(digits(m), 100))
	// Output: create_batch_reader_0.tmp_0 reader of [image label]
}

// A buffer as large as the dataset shuffles all of it.
func ExampleShuffle() {
	m := layers.NewModel()
	fmt.Println(layers.Batch(layers.Shuffle(digits(m), 6000, 1), 100))
	// Output: create_batch_reader_0.tmp_0 reader of [image label]
}

// Reviews lie in the files by length, so batches of 32 have reviews of like lengths. The batches come in random order.
func ExampleShuffleGroups() {
	m := layers.NewModel()
	reviews := layers.OpenDataset(m, "train", layers.Field("words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	fmt.Println(layers.Batch(layers.ShuffleGroups(reviews, 4096, 32, 1), 32))
	// Output: create_batch_reader_0.tmp_0 reader of [words label]
}

// Passes that the program names are those of a run that names none.
func ExampleMultiPass() {
	m := layers.NewModel()
	layers.Read(layers.MultiPass(layers.Batch(digits(m), 100), 5))
	show(m)
	// Output:
	// create_recordio_file_reader [] -> [open_dataset_0.tmp_0]
	// create_batch_reader [open_dataset_0.tmp_0] -> [create_batch_reader_0.tmp_0]
	// create_multi_pass_reader [create_batch_reader_0.tmp_0] -> [create_multi_pass_reader_0.tmp_0]
	// read [create_multi_pass_reader_0.tmp_0] -> [image label]
}

// The last decorator prepares what all others make.
func ExampleDoubleBuffer() {
	m := layers.NewModel()
	layers.Read(layers.DoubleBuffer(layers.Batch(digits(m), 100)))
	show(m)
	// Output:
	// create_recordio_file_reader [] -> [open_dataset_0.tmp_0]
	// create_batch_reader [open_dataset_0.tmp_0] -> [create_batch_reader_0.tmp_0]
	// create_double_buffer_reader [create_batch_reader_0.tmp_0] -> [create_double_buffer_reader_0.tmp_0]
	// read [create_double_buffer_reader_0.tmp_0] -> [image label]
}

// A schema of a table knows what its records are, so a program need not say it again.
func ExampleFieldsOf() {
	s, err := schema.Read(strings.NewReader("{version: 1, missing: [], columns: [{name: age, type: number}, {name: city, type: key}, {name: tags, type: key, separator: '|'}]}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := layers.NewModel()
	people := layers.OpenDataset(m, "people", layers.FieldsOf(s.Fields())...)
	for _, v := range layers.Read(layers.Batch(people, 20)) {
		fmt.Println(v)
	}
	// Output:
	// age float32[-1 1]
	// city int64[-1 1]
	// tags int64[-1 1]
}

// The program names its data; the job says where it is.
func ExampleOpenDataset() {
	m := layers.NewModel()
	train := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(train, 500, 1), 20)))
	fmt.Println(batch[0])
	fmt.Println(batch[1])
	// Output:
	// x float32[-1 13]
	// y float32[-1 1]
}
