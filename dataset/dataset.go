package dataset

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

// A Dataset is a list of indexed record files, which only grows. The zero Dataset is empty. It is safe for concurrent use. It holds no
// file open; buckets stay open until Close.
type Dataset struct {
	sources sources
	growing sync.Mutex // held while a file is added
	mu      sync.Mutex
	files   []file // the slice may be read without mu: what it holds does not change
}

type file struct {
	*recordio.Index
	first int64 // number of its first record in the dataset
}

func (f file) end() int64 { return f.first + f.NumRecords() }

// all returns the files of this moment.
func (d *Dataset) all() []file {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files
}

// A Chunk is a run of records that is stored as one and therefore best read by one trainer.
type Chunk struct {
	Path        string
	Index       int   // in its file
	Offset      int64 // in its file, in bytes
	FirstRecord int64 // number in the dataset
	Records     int64
}

// Open indexes the files that globs match: globs in the order given, files sorted within a glob. A file that several globs match is read
// once, at its first place. A glob that matches nothing is NotFound.
//
// A glob is a path in the syntax of path/filepath, or a URL of objects: s3://bucket/train-*, file:///folder/train-*, or of another scheme for
// which the program has registered a driver with gocloud.dev/blob; that of file:// is always there.
func Open(ctx context.Context, globs []string) (*Dataset, error) {
	d := &Dataset{}
	files, err := d.sources.expand(ctx, globs, func(glob string) error {
		return fault.E(fault.NotFound, fault.Got("no file for dataset glob "+fault.Quote(glob)), fault.Want("at least one record file"))
	})
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

// checkEmpty refuses an empty file beside files with footers: their writer gives one to every file, so nothing is left of this one.
func (d *Dataset) checkEmpty() error {
	indexed := slices.IndexFunc(d.files, func(f file) bool { return f.Layout == recordio.Indexed })
	empty := slices.IndexFunc(d.files, func(f file) bool { return f.Bytes == 0 })
	if indexed < 0 || empty < 0 {
		return nil
	}
	return fault.E(fault.Corrupt, fault.At(d.files[empty].Name), fault.Got("an empty file beside "+d.files[indexed].Name),
		fault.Want("a file with a footer, like that one, also where it has no records"))
}

// Close ends the connections to buckets. Iterations must have ended. A Dataset of paths needs no Close.
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
