package dataset

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Dataset is a list of indexed record files. It can only grow. The zero Dataset is empty. It is safe for concurrent use. It keeps no files open,
// but keeps buckets open until Close.
type Dataset struct {
	sources sources
	growing sync.Mutex // held while a file is added
	mu      sync.Mutex
	files   []file // readers of a copy of the slice need no lock, because elements do not change
}

type file struct {
	*recordio.Index
	first int64 // number of its first record in the dataset
}

func (f file) end() int64 { return f.first + f.NumRecords() }

// all returns the present files.
func (d *Dataset) all() []file {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

// A Chunk is a run of records that is stored as a unit. It is best read by one trainer.
type Chunk struct {
	Path        string
	Index       int   // in its file
	Offset      int64 // in its file, in bytes
	FirstRecord int64 // number in the dataset
	Records     int64
}

// Open indexes the files that match globs: globs in the given order, and files sorted within a glob. It reads a file that several globs match only
// once, at its first place. The error is NotFound if a glob matches nothing.
//
// A glob is a path in the syntax of path/filepath, or a URL of objects: s3://bucket/train-*, file:///folder/train-*, or of another scheme whose
// driver the program has registered with gocloud.dev/blob. The driver of file:// is always registered.
func Open(ctx context.Context, globs []string) (*Dataset, error) {
	d := &Dataset{}
	files, err := d.sources.expand(ctx, globs, missing)
	for _, f := range files {
		if err = interrupt.Check(ctx, "dataset"); err != nil {
			break
		}
		var index *recordio.Index
		if index, err = d.sources.index(ctx, f.Name, f.Bytes); err != nil {
			break
		}
		d.files = append(d.files, file{Index: index, first: records(d.files)})
	}
	if err == nil {
		err = d.checkEmpty()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// checkEmpty refuses an empty file among files with footers. Writers give every file a footer, so the file has lost its content.
func (d *Dataset) checkEmpty() error {
	indexed := slices.IndexFunc(d.files, func(f file) bool { return f.Layout == recordio.Indexed })
	empty := slices.IndexFunc(d.files, func(f file) bool { return f.Bytes == 0 })
	if indexed < 0 || empty < 0 {
		return nil
	}
	return fault.E(fault.Corrupt, fault.At(d.files[empty].Name), fault.Got("an empty file next to "+d.files[indexed].Name),
		fault.Want("a file with a footer, even if it has no records"))
}

// Close closes the connections to buckets. All iterations must have ended. A Dataset of paths needs no Close.
func (d *Dataset) Close() error { return d.sources.buckets.Close() }

// NumRecords returns the number of records in all files.
func (d *Dataset) NumRecords() int64 { return records(d.all()) }

func records(files []file) int64 {
	if len(files) == 0 {
		return 0
	}
	return files[len(files)-1].end()
}

// Chunks lists the chunks of all files in order.
func (d *Dataset) Chunks() []Chunk {
	var chunks []Chunk
	for _, f := range d.all() {
		for i, c := range f.Index.Chunks {
			chunks = append(chunks, Chunk{Path: f.Name, Index: i, Offset: c.Offset, FirstRecord: f.first + c.FirstRecord, Records: c.Records})
		}
	}
	return chunks
}

// fileOf returns the position of the file that holds a record of the dataset.
func fileOf(files []file, record int64) int {
	return sort.Search(len(files), func(i int) bool { return files[i].first > record }) - 1
}

func outside(from, to, records int64) error {
	return fault.E(fault.InvalidArgument, fault.At("dataset"), fault.Gotf("records [%d, %d)", from, to),
		fault.Wantf("a range within [0, %d)", records))
}

// FileInfo describes a file of a dataset without its records. Processes that see the same FileInfo read the same records.
type FileInfo struct {
	Path        string
	FirstRecord int64 // number of its first record in the dataset
	Records     int64
	Bytes       int64  // of the file
	Fingerprint uint64 // of the headers of its chunks, which have the checksums of their records
}

// String returns what can differ between files.
func (i FileInfo) String() string {
	return fmt.Sprintf("%d records from number %d on in %d bytes with fingerprint %016x", i.Records, i.FirstRecord, i.Bytes, i.Fingerprint)
}

// same reports whether both have the same records, at whatever path.
func (i FileInfo) same(o FileInfo) bool {
	i.Path = o.Path
	return i == o
}

func (f file) info() FileInfo {
	return FileInfo{Path: f.Name, FirstRecord: f.first, Records: f.NumRecords(), Bytes: f.Bytes, Fingerprint: f.Fingerprint()}
}

// Files describes the files in order.
func (d *Dataset) Files() []FileInfo {
	files := d.all()
	infos := make([]FileInfo, len(files))
	for i, f := range files {
		infos[i] = f.info()
	}
	return infos
}

// Add appends the file at path. The file must agree with want, except for want.Path, and begin at the end of the dataset. If the dataset has the
// file already, Add changes nothing.
func (d *Dataset) Add(ctx context.Context, path string, want FileInfo) error {
	if err := interrupt.Check(ctx, "dataset"); err != nil {
		return err
	}
	d.growing.Lock()
	defer d.growing.Unlock()
	if there, ok := d.at(path, want.FirstRecord); ok {
		return matches(there, want)
	}
	index, err := d.sources.index(ctx, path, -1)
	if err != nil {
		return err
	}
	added := file{Index: index, first: want.FirstRecord}
	if err := matches(added, want); err != nil {
		return err
	}
	if end := d.NumRecords(); end != want.FirstRecord {
		return fault.E(fault.InvalidArgument, fault.At(path), fault.Gotf("a file whose records begin at number %d", want.FirstRecord),
			fault.Wantf("one that begins at %d, the end of the dataset", end))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files = append(d.files, added)
	return nil
}

// at returns the file of a path that begins with a record.
func (d *Dataset) at(path string, first int64) (file, bool) {
	files := d.all()
	for i := sort.Search(len(files), func(i int) bool { return files[i].first >= first }); i < len(files) && files[i].first == first; i++ {
		if files[i].Name == path {
			return files[i], true
		}
	}
	return file{}, false
}

func matches(f file, want FileInfo) error {
	if got := f.info(); !got.same(want) {
		return fault.E(fault.Corrupt, fault.At(f.Name), fault.Got(got.String()), fault.Want(want.String()),
			fault.Hint("the file differs from the file of other processes, or has changed"))
	}
	return nil
}

// A Field is one tensor of every sample. With LoDLevel 0 all samples have the same dims, and a batch has one row for each. Otherwise a sample is one
// sequence of LoDLevel levels: it has any number of rows of Dims, which follow those of the sample before in a batch. The LoD of the batch says where
// each sequence begins.
type Field struct {
	Name     string // for errors, usually the name of the program's variable; may be empty
	DType    tensor.DType
	Dims     []int64 // of one sample, without the batch; of sequences: of one row
	LoDLevel int     // 0 to tensor.MaxLoDLevel
}

// Describe returns what a program declares of the field, for layers.FieldsOf.
func (f Field) Describe() (name string, dtype tensor.DType, dims []int64, lodLevel int) {
	return f.Name, f.DType, f.Dims, f.LoDLevel
}

// String names type and dims, such as "float32[784]", and the LoD levels of sequences, such as "int64[1] in 1 LoD level".
func (f Field) String() string {
	switch f.LoDLevel {
	case 0:
		return fmt.Sprintf("%v%v", f.DType, f.Dims)
	case 1:
		return fmt.Sprintf("%v%v in 1 LoD level", f.DType, f.Dims)
	}
	return fmt.Sprintf("%v%v in %d LoD levels", f.DType, f.Dims, f.LoDLevel)
}

// check compares a parsed tensor of a sample with the field.
func (f Field) check(s *tensor.Stream) *fault.Fault {
	switch {
	case s.DType != f.DType:
		return fault.E(fault.TypeMismatch, fault.Gotf("%v%v", s.DType, s.Dims), fault.Want(f.String()))
	case f.LoDLevel > 0:
		return f.checkSequence(s)
	case !slices.Equal(s.Dims, f.Dims) && !(oneNumber(s.Dims) && oneNumber(f.Dims)):
		return fault.E(fault.ShapeMismatch, fault.Gotf("%v%v", s.DType, s.Dims), fault.Want(f.String()))
	case len(s.LoD) > 0:
		return fault.E(fault.ShapeMismatch, fault.Gotf("a sequence (%d LoD levels)", len(s.LoD)), fault.Want("samples of one shape"),
			fault.Hint("declare the field with layers.LoD"))
	}
	return nil
}

// oneNumber reports whether dims are those of a single number, which programs and records write as [] or as [1].
func oneNumber(dims []int64) bool { return len(dims) == 0 || len(dims) == 1 && dims[0] == 1 }

// Fields describes the tensors of the first record, without names. A tensor with LoD is a field of sequences. For a dataset without records it returns none.
func (d *Dataset) Fields(ctx context.Context) ([]Field, error) {
	for record, err := range d.Records(ctx, 0, min(1, d.NumRecords())) {
		if err != nil {
			return nil, err
		}
		streams, err := ParseRecord(record.Bytes, nil)
		if err != nil {
			return nil, fault.Wrap(fault.KindOf(err), record.place(), err)
		}
		fields := make([]Field, len(streams))
		for i, s := range streams {
			fields[i] = Field{DType: s.DType, Dims: s.Dims, LoDLevel: len(s.LoD)}
			if len(s.LoD) > 0 {
				fields[i].Dims = s.Dims[1:]
			}
		}
		return fields, nil
	}
	return nil, nil
}

// label names field i in errors.
func (f Field) label(i int) string {
	if f.Name != "" {
		return f.Name
	}
	return fmt.Sprintf("field %d", i)
}
