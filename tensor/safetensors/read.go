package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A File is a file whose header is read.
type File struct {
	Tensors  []Tensor // in the order of the data
	Metadata map[string]string
	Place    func(Tensor) (*tensor.Tensor, error) // where Next reads a tensor to, as tensor.Place; nil: memory of Go

	// Rows says of a tensor that it is rows of a larger one, which Next then reads them into and returns: tensor.ReadRowsInto. numbers has one for each row. nil, or an into of nil: it is none.
	Rows func(Tensor) (into, numbers *tensor.Tensor, err error)

	r      io.Reader
	limits Limits
	next   int // tensor that Next returns
}

// Open reads the header of a file that any program may have written, and no byte after it. What it says is checked: each type is known, dims, offsets and
// types agree, and the tensors follow each other without a gap. Names may be anything; a caller that makes files of them checks them.
func Open(r io.Reader, limits Limits) (*File, error) {
	limits = limits.withDefaults()
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, cut(err, "the length of the header")
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(limits.Header) {
		return nil, fault.E(fault.TooLarge, fault.Gotf("a header of %d bytes", n), fault.Wantf("at most %d", limits.Header))
	}
	var head bytes.Buffer // grows as bytes arrive
	if _, err := io.CopyN(&head, r, int64(n)); err != nil {
		return nil, cut(err, "the header")
	}
	f := &File{r: r, limits: limits}
	if err := f.parse(head.Bytes()); err != nil {
		return nil, err
	}
	return f, nil
}

// cut says that bytes are missing, or why they could not be read.
func cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.E(fault.Corrupt, fault.Got("the end of the file in "+what), fault.Want("a whole safetensors file"), fault.Cause(io.ErrUnexpectedEOF))
	}
	return fault.Wrap(fault.Unavailable, what, err)
}

func corrupt(name, got, want string) error {
	return fault.E(fault.Corrupt, fault.Var(name), fault.Got(got), fault.Want(want))
}

// parse reads the header.
func (f *File) parse(head []byte) error {
	bad := func(err error) error {
		return fault.E(fault.Corrupt, fault.Got("a header that is no JSON object of tensors"), fault.Want("a safetensors file"), fault.Cause(err))
	}
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || head[0] != '{' {
		return bad(err)
	}
	type place struct {
		Tensor
		from, to int64
	}
	var places []place
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad(err)
		}
		name, _ := key.(string)
		if seen[name] {
			return corrupt(name, "a name twice in the header", "each name once")
		}
		seen[name] = true
		if name == metadataKey {
			if err := d.Decode(&f.Metadata); err != nil {
				return bad(err)
			}
			continue
		}
		if len(places) == f.limits.Tensors {
			return fault.E(fault.TooLarge, fault.Got("more tensors"), fault.Wantf("at most %d", f.limits.Tensors))
		}
		var e entry
		if err := d.Decode(&e); err != nil {
			return bad(err)
		}
		t, err := f.check(name, e)
		if err != nil {
			return err
		}
		places = append(places, place{t, e.Offsets[0], e.Offsets[1]})
	}
	if _, err := d.Token(); err != nil {
		return bad(err)
	}
	if rest := bytes.Trim(head[d.InputOffset():], " "); len(rest) > 0 {
		return bad(errors.New("bytes behind the object"))
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.Name, b.Name))
	})
	offset := int64(0)
	for _, p := range places {
		if p.from != offset {
			return fault.E(fault.Corrupt, fault.Var(p.Name), fault.Gotf("data from byte %d on", p.from), fault.Wantf("from byte %d on, without gaps", offset))
		}
		offset = p.to
		f.Tensors = append(f.Tensors, p.Tensor)
	}
	return nil
}

// check compares what an entry says of a tensor with itself and with the limits.
func (f *File) check(name string, e entry) (Tensor, error) {
	dtype := tensor.DType(-1)
	for d, n := range names {
		if n == e.DType {
			dtype = d
		}
	}
	if dtype < 0 {
		return Tensor{}, fault.E(fault.Unsupported, fault.Var(name), fault.Got("elements of type "+fault.Quote(e.DType)), fault.Want("one of the types that edl has"))
	}
	if len(e.Shape) > tensor.MaxRank {
		return Tensor{}, fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("%d dims", len(e.Shape)), fault.Wantf("at most %d", tensor.MaxRank))
	}
	count, ok := tensor.Count(e.Shape)
	size := int64(dtype.Size())
	if !ok || int64(count) > f.limits.Bytes/size {
		return Tensor{}, fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("dims %v", e.Shape), fault.Wantf("at most %d bytes", f.limits.Bytes))
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1]-e.Offsets[0] != int64(count)*size {
		return Tensor{}, fault.E(fault.Corrupt, fault.Var(name), fault.Gotf("data_offsets %v", e.Offsets), fault.Wantf("the place of %d bytes", int64(count)*size))
	}
	return Tensor{Name: name, DType: dtype, Dims: e.Shape}, nil
}

// Next reads the tensor that follows in the data. At the end it returns io.EOF, or an error if bytes remain.
func (f *File) Next() (string, *tensor.Tensor, error) {
	if f.next == len(f.Tensors) {
		if n, err := io.ReadFull(f.r, make([]byte, 1)); n > 0 {
			return "", nil, fault.E(fault.Corrupt, fault.Got("bytes behind the last tensor"), fault.Want("the end of the file"))
		} else if err != io.EOF {
			return "", nil, cut(err, "the end of the file")
		}
		return "", nil, io.EOF
	}
	t := f.Tensors[f.next]
	value, err := f.read(t)
	if err != nil {
		var known *fault.Fault
		if errors.As(err, &known) {
			c := *known
			c.Variable = t.Name
			err = &c
		}
		return "", nil, err
	}
	f.next++
	return t.Name, value, nil
}

// read reads a tensor from the place in the data where the file is.
func (f *File) read(t Tensor) (*tensor.Tensor, error) {
	if f.Rows != nil {
		into, numbers, err := f.Rows(t)
		if err != nil {
			return nil, err
		}
		if into != nil {
			return into, tensor.ReadRowsInto(f.r, into, numbers)
		}
	}
	var place tensor.Place
	if f.Place != nil {
		place = func(tensor.DType, []int64) (*tensor.Tensor, error) { return f.Place(t) }
	}
	return tensor.ReadElementsInto(f.r, place, t.DType, t.Dims...)
}
