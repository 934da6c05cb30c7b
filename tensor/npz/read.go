package npz

import (
	"archive/zip"
	"errors"
	"io"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Limits bounds what Read accepts. It is checked before memory is allocated. A zero field means its default.
type Limits struct {
	Arrays int   // of one archive; default 64 Ki
	Bytes  int64 // elements of all arrays, unpacked; default 4 GiB
}

// Read reads the arrays of an archive of size bytes whose names are wanted, packed or not. Types that no kernel knows become their tensor.Wider. Memory grows with the bytes that arrive.
func Read(r io.ReaderAt, size int64, limits Limits, wanted func(name string) bool) (map[string]*tensor.Tensor, error) {
	if limits.Arrays <= 0 {
		limits.Arrays = 64 << 10
	}
	if limits.Bytes <= 0 {
		limits.Bytes = 4 << 30
	}
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fault.E(fault.Corrupt, fault.Got("no archive of arrays"), fault.Want("a .npz file, as numpy.savez writes it"), fault.Cause(err))
	}
	if len(archive.File) > limits.Arrays {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d arrays", len(archive.File)), fault.Wantf("at most %d", limits.Arrays))
	}
	all, room := map[string]*tensor.Tensor{}, limits.Bytes
	for _, entry := range archive.File {
		name, isArray := strings.CutSuffix(entry.Name, ".npy")
		if !isArray || all[name] != nil {
			return nil, fault.E(fault.Corrupt, fault.Got("the entry "+fault.Quote(entry.Name)), fault.Want("arrays NAME.npy, each once"))
		}
		if !wanted(name) {
			continue
		}
		if entry.UncompressedSize64 > uint64(room) {
			return nil, fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("arrays of more than %d bytes", limits.Bytes), fault.Want("smaller ones"))
		}
		room -= int64(entry.UncompressedSize64)
		if all[name], err = readEntry(entry); err != nil {
			return nil, ofArray(name, err)
		}
	}
	return all, nil
}

func ofArray(name string, err error) error {
	var known *fault.Fault
	if !errors.As(err, &known) {
		return fault.E(fault.Corrupt, fault.Var(name), fault.Got("bytes that cannot be unpacked"), fault.Want("a whole .npz file"), fault.Cause(err))
	}
	c := *known
	c.Variable = name
	return &c
}

func readEntry(entry *zip.File) (*tensor.Tensor, error) {
	f, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	description, dims, bytes, err := ReadHeader(f, int64(entry.UncompressedSize64))
	if err != nil {
		return nil, err
	}
	dtype, ok := typeOf(description)
	if !ok {
		return nil, fault.E(fault.Unsupported, fault.Got("an array of "+description), fault.Want("bool, int8, uint8, int16, int32, int64, float16, float32 or float64, little-endian"))
	}
	if n, ok := tensor.Count(dims); !ok || len(dims) > tensor.MaxRank || int64(n) > bytes/int64(dtype.Size()) || int64(n)*int64(dtype.Size()) != bytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d bytes of elements", bytes), fault.Wantf("those of %s of shape %v", dtype, dims))
	}
	t, err := tensor.ReadElements(f, dtype, dims...)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, f) // nothing is left; compares the checksum
	return t, err
}

func typeOf(description string) (tensor.DType, bool) {
	for d, known := range descriptions {
		if known == description {
			return d, true
		}
	}
	return 0, false
}
