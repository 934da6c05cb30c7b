package feedfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// maxArrays bounds the arrays of an archive.
const maxArrays = 1 << 12

// An archive is the arrays of a .npz file, by name.
type archive struct {
	files map[string]*zip.File
	names []string // in the order of the file, without those that are offsets
	size  int64    // of the file

	budget *tensor.Budget
}

// openArchive lists an archive of size bytes, compressed or not.
func openArchive(r io.ReaderAt, size int64, budget *tensor.Budget) (*archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fault.E(fault.Corrupt, fault.Got("no archive of arrays"), fault.Want("a .npz file, as numpy.savez writes it"), fault.Cause(err))
	}
	if len(z.File) > maxArrays {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d arrays", len(z.File)), fault.Wantf("at most %d", maxArrays))
	}
	a := &archive{files: map[string]*zip.File{}, size: size, budget: budget}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok || a.files[name] != nil {
			return nil, fault.E(fault.Corrupt, fault.Gotf("the entry %s", fault.Quote(f.Name)), fault.Want("arrays NAME.npy, each once"))
		}
		a.files[name] = f
	}
	for _, f := range z.File {
		if name := strings.TrimSuffix(f.Name, ".npy"); !a.offsets(name) {
			a.names = append(a.names, name)
		}
	}
	return a, nil
}

// lodSuffix is what follows the name of an array in the names of its offsets, before the level.
const lodSuffix = ".lod"

// offsets reports whether an array has the offsets of another one.
func (a *archive) offsets(name string) bool {
	at := strings.LastIndex(name, lodSuffix)
	if at < 0 || a.files[name[:at]] == nil {
		return false
	}
	level := name[at+len(lodSuffix):]
	return len(level) == 1 && level[0] >= '0' && level[0] < '0'+tensor.MaxLoDLevel
}

// read returns the array of a name, with its offsets, as declared.
func (a *archive) read(name string, declared *program.Var) (*tensor.Tensor, error) {
	t, err := a.array(name, declared.DType)
	if err != nil {
		return nil, err
	}
	if t, err = shapeRecords(t, declared.Dims); err != nil {
		return nil, err
	}
	var lod [][]int64
	for level := range tensor.MaxLoDLevel {
		of := fmt.Sprintf("%s%s%d", name, lodSuffix, level)
		if a.files[of] == nil {
			continue
		}
		if level > len(lod) {
			return nil, fault.E(fault.Corrupt, fault.Gotf("%s without level %d", of, len(lod)), fault.Want("levels from 0, the outermost"))
		}
		offsets, err := a.array(of, tensor.Int64)
		if err == nil && len(offsets.Dims()) != 1 {
			err = fault.E(fault.ShapeMismatch, fault.Gotf("offsets of shape %v", offsets.Dims()), fault.Want("a vector"))
		}
		if err != nil {
			return nil, named(err, of)
		}
		lod = append(lod, offsets.Int64s())
	}
	t.SetLoD(lod)
	return t, tensor.CheckLoD(t)
}

func (a *archive) array(name string, dtype tensor.DType) (*tensor.Tensor, error) {
	f := a.files[name]
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	t, err := readNPY(r, int64(min(f.UncompressedSize64, math.MaxInt64)), int64(min(f.CompressedSize64, uint64(a.size))), dtype, a.budget)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // nothing is left; compares the checksum
	}
	if known := (*fault.Fault)(nil); err != nil && !errors.As(err, &known) {
		err = fault.E(fault.Corrupt, fault.Got("bytes that cannot be unpacked"), fault.Want("a whole .npz file"), fault.Cause(err))
	}
	return t, err
}

// readArchived reads the array of a variable, which has its name or is the only one.
func readArchived(r io.ReaderAt, size int64, declared *program.Var, budget *tensor.Budget) (*tensor.Tensor, error) {
	a, err := openArchive(r, size, budget)
	if err != nil {
		return nil, err
	}
	name := declared.Name
	if a.files[name] == nil && len(a.names) == 1 {
		name = a.names[0]
	}
	if a.files[name] == nil {
		return nil, fault.E(fault.NotFound, fault.Gotf("an archive of %s", listed(a.names)), fault.Want("an array of the variable's name, or only one"))
	}
	return a.read(name, declared)
}

// readArchive reads every array whose name is declared. names has all of them.
func readArchive(r io.ReaderAt, size int64, declared Declared, budget *tensor.Budget) (all map[string]*tensor.Tensor, names []string, err error) {
	a, err := openArchive(r, size, budget)
	if err != nil {
		return nil, nil, err
	}
	all = map[string]*tensor.Tensor{}
	for _, name := range a.names {
		v, ok := declared(name)
		if !ok {
			continue
		}
		if all[name], err = a.read(name, v); err != nil {
			return nil, nil, named(err, name)
		}
	}
	return all, a.names, nil
}
