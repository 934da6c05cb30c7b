package dataset

import (
	"context"
	"fmt"
	"sort"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/fault"
)

// FileInfo is what is known of a file of a dataset without its records. Two processes that see the same FileInfo read the same records.
type FileInfo struct {
	Path        string
	FirstRecord int64 // number of its first record in the dataset
	Records     int64
	Bytes       int64  // of the file
	Fingerprint uint64 // of the headers of its chunks, which have the checksums of their records
}

// String says what two files differ in.
func (i FileInfo) String() string {
	return fmt.Sprintf("%d records from number %d on in %d bytes with fingerprint %016x", i.Records, i.FirstRecord, i.Bytes, i.Fingerprint)
}

// same reports whether the infos are of the same records, wherever they are.
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

// Add appends the file at path, which must be what want says and begin where the dataset ends; want.Path is not looked at. Adding what is
// there already changes nothing.
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
			fault.Wantf("one that begins at %d, where the dataset ends", end))
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
			fault.Hint("the file is another one than that of the others, or has changed"))
	}
	return nil
}
