// Package npz writes and reads tensors as NumPy's archive of arrays: a zip file with one .npy file for each. What it writes is of version 1.0 and not compressed. In Python,
// numpy.load("params.npz") is a mapping from names to arrays.
package npz

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Extension is what names of such files end with.
const Extension = ".npz"

// descriptions are NumPy's names of element types.
var descriptions = map[tensor.DType]string{
	tensor.Bool: "|b1", tensor.Int8: "|i1", tensor.UInt8: "|u1", tensor.Int16: "<i2", tensor.Int32: "<i4", tensor.Int64: "<i8",
	tensor.Float16: "<f2", tensor.Float32: "<f4", tensor.Float64: "<f8",
}

// Write writes an archive. It calls value for each name, in this order, and has one tensor in memory at a time. Equal values give equal bytes.
func Write(w io.Writer, names []string, value func(name string) (*tensor.Tensor, error)) error {
	archive := zip.NewWriter(w)
	for _, name := range names {
		if !filepath.IsLocal(name) || strings.Contains(name, `\`) {
			return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a name that leads out of an archive"), fault.Want("another name"))
		}
		t, err := value(name)
		if err != nil {
			return err
		}
		head, err := header(t)
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if _, err := entry.Write(head); err != nil {
			return err
		}
		if err := tensor.WriteElements(entry, t); err != nil {
			return err
		}
	}
	return archive.Close()
}

// header returns the head of a .npy file. The elements behind it begin at a multiple of 64.
func header(t *tensor.Tensor) ([]byte, error) {
	description, ok := descriptions[t.DType()]
	if !ok {
		return nil, fault.E(fault.Unsupported, fault.Got("elements of "+t.DType().String()), fault.Want("a type that NumPy has"))
	}
	var shape strings.Builder
	for _, d := range t.Dims() {
		fmt.Fprintf(&shape, "%d, ", d)
	}
	dims := strings.TrimSuffix(shape.String(), " ")
	if len(t.Dims()) > 1 {
		dims = strings.TrimSuffix(dims, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", description, dims)
	const before = 10 // magic, version and length
	text += strings.Repeat(" ", 63-(before+len(text))%64) + "\n"
	head := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(head[8:], uint16(len(text)))
	return append(head, text...), nil
}
