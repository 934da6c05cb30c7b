package layers

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Dims sets the extents of one record of Data or Field.
func Dims(dims ...int64) Option {
	return Option{"Dims", func(s *settings) { s.dims = slices.Clone(dims) }}
}

// NoBatchDim says that Dims are those of the whole variable, not those of one record in a batch.
func NoBatchDim() Option { return Option{"NoBatchDim", func(s *settings) { s.noBatch = true }} }

// Data declares a variable that is fed by name. Its dims are an open batch axis and then the dims of one record. Its type is float32 unless DType
// says otherwise. No gradient flows into it.
//
// Options: Dims, DType, NoBatchDim, LoD.
func Data(m *Model, name string, opts ...Option) Variable {
	l := &layer{settings: defaults(), kind: "data", model: m, failed: m == nil}
	if l.failed {
		return l.fail()
	}
	if f := l.apply(l.kind, opts, []string{"Dims", "DType", "NoBatchDim", "LoD"}); f != nil {
		return l.mistake(f)
	}
	return l.data(name)
}

func (l *layer) data(name string) Variable {
	if name == "" {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Got("an empty name"), fault.Want("the name by which the variable is fed")))
	}
	if slices.ContainsFunc(l.dims, func(d int64) bool { return d < program.Unknown || d == 0 }) {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("dims %v", l.dims),
			fault.Want("extents of at least 1, or -1 where open")))
	}
	if l.lod < 0 || l.lod > 0 && l.noBatch {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(name), fault.Gotf("%d LoD levels", l.lod),
			fault.Want("at least 0, and an axis of rows")))
	}
	dims := l.dims
	if !l.noBatch {
		dims = append([]int64{program.Unknown}, dims...)
	}
	v, err := l.model.main.Global().AddVar(program.Var{Name: name, Kind: program.LoDTensor, DType: l.dtype, Dims: dims, LoDLevel: l.lod,
		StopGradient: true, NeedCheckFeed: true})
	if err != nil {
		return l.mistake(taken(name))
	}
	return Variable{l.model, v}
}

// A Reader is a stream of samples in the program, after Batch a stream of batches. Like a Variable it is poisoned after a mistake.
type Reader struct {
	v      Variable
	fields []string // names of the variables that Read returns
}

// A FieldSpec declares one tensor of a sample.
type FieldSpec struct {
	name string
	opts []Option
}

// Field declares one tensor of a sample: the name of the variable for a batch of it, and the dims of one sample. The type is float32 unless DType
// says otherwise. With LoD a sample is one sequence, of any number of rows of Dims.
//
// Options: Dims, DType, LoD.
func Field(name string, opts ...Option) FieldSpec { return FieldSpec{name, opts} }

// A Described is something that says what one tensor of a sample is, such as a field of dataset/schema.
type Described interface {
	// Describe returns the arguments of Field.
	Describe() (name string, dtype tensor.DType, dims []int64, lodLevel int)
}

// FieldsOf declares the tensors of a sample as others describe them: FieldsOf(s.Fields()) those that a schema makes of a row of a table.
func FieldsOf[F Described](described []F) []FieldSpec {
	fields := make([]FieldSpec, len(described))
	for i, f := range described {
		name, dtype, dims, lodLevel := f.Describe()
		fields[i] = Field(name, Dims(dims...), DType(dtype), LoD(lodLevel))
	}
	return fields
}

// OpenDataset reads the samples of a dataset. The program knows the dataset by name, and the job says which files hold its records. The fields
// stand in the order of a record. Op: create_recordio_file_reader.
func OpenDataset(m *Model, dataset string, fields ...FieldSpec) Reader {
	l := begin(m, "open_dataset", nil)
	attrs := Attrs{"dataset": dataset, "shape_concat": []int64{}, "ranks": []int64{}, "lod_levels": []int64{}, "dtypes": []int64{}}
	push := func(name string, values ...int64) { attrs[name] = append(attrs[name].([]int64), values...) }
	r := Reader{}
	for _, f := range fields {
		s := &settings{dtype: tensor.Float32}
		if wrong := s.apply("field "+f.name, f.opts, []string{"Dims", "DType", "LoD"}); wrong != nil && !l.failed {
			l.mistake(wrong)
		}
		push("shape_concat", s.dims...)
		push("ranks", int64(len(s.dims)))
		push("lod_levels", int64(s.lod))
		push("dtypes", int64(s.dtype))
		r.fields = append(r.fields, f.name)
	}
	r.v = l.op("create_recordio_file_reader", nil, attrs, "Out")
	return r
}

// Shuffle yields the samples of a buffer in an order that follows from the seed and the number of the pass. It works on samples, so it comes before
// Batch.
func Shuffle(r Reader, buffer, seed int) Reader {
	return r.decorate("create_shuffle_reader", Attrs{"buffer_size": buffer, "seed": seed})
}

// ShuffleGroups is Shuffle for samples that lie in the files by length (edl data --by-length): group samples that follow each other stay together, and a last group that is smaller
// stays last. With group the size of a batch, the sequences of a batch have like lengths, and batches come in random order. buffer is a multiple of group.
func ShuffleGroups(r Reader, buffer, group, seed int) Reader {
	return r.decorate("create_shuffle_reader", Attrs{"buffer_size": buffer, "group_size": group, "seed": seed})
}

// Batch joins samples to batches of the given size, over all trainers of a job. The last batch of a pass may be smaller.
func Batch(r Reader, size int) Reader {
	return r.decorate("create_batch_reader", Attrs{"batch_size": size})
}

// DoubleBuffer prepares batches while the program computes.
func DoubleBuffer(r Reader) Reader { return r.decorate("create_double_buffer_reader", nil) }

// MultiPass reads the dataset several times.
func MultiPass(r Reader, passes int) Reader {
	return r.decorate("create_multi_pass_reader", Attrs{"pass_num": passes})
}

func (r Reader) decorate(opType string, attrs Attrs) Reader {
	l := start(opType, nil, nil, r.v)
	r.v = l.op(opType, In{"UnderlyingReader": {r.v}}, attrs, "Out")
	return r
}

// Read takes the next batch. It returns one variable for each field, in order and with the name of the field. So a caller may also feed the program
// by these names. No gradient flows into them. Op: read.
func Read(r Reader) []Variable {
	l := start("read", nil, nil, r.v)
	batch := make([]Variable, len(r.fields))
	for i, name := range r.fields {
		batch[i] = l.readInto(name)
	}
	l.write("read", In{"Reader": {r.v}}, nil, In{"Out": batch})
	if l.failed {
		for i := range batch {
			batch[i] = l.fail()
		}
	}
	return batch
}

func (l *layer) readInto(name string) Variable {
	if l.failed {
		return l.fail()
	}
	if name == "" {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Got("a field without name"),
			fault.Want("the name of the variable that holds its batch")))
	}
	v, err := l.model.main.Global().AddVar(program.Var{Name: name, Kind: untyped, StopGradient: true, NeedCheckFeed: true})
	if err != nil {
		return l.mistake(taken(name))
	}
	return Variable{l.model, v}
}

// String names the reader and its fields.
func (r Reader) String() string { return fmt.Sprintf("%v of %v", r.v, r.fields) }
