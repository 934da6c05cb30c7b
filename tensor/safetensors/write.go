package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Write writes a file of tensors. It calls value once for each, in the order of the file: so the caller needs one of them in memory at a time. metadata
// are texts by name; nil: none.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string, value func(name string) (*tensor.Tensor, error)) error {
	ordered := slices.Clone(tensors)
	slices.SortFunc(ordered, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	head, err := header(ordered, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range ordered {
		v, err := value(t.Name)
		if err != nil {
			return err
		}
		if v.DType() != t.DType || !slices.Equal(v.Dims(), t.Dims) {
			return fault.E(fault.ShapeMismatch, fault.Var(t.Name), fault.Got(v.String()), fault.Wantf("%s%v", t.DType, t.Dims))
		}
		if err := tensor.WriteElements(w, v); err != nil {
			return err
		}
	}
	return nil
}

// header returns the length and the header.
func header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if len(metadata) > 0 {
		if err := putField(&b, metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{metadataKey: true}
	offset := int64(0)
	for _, t := range tensors {
		dtype, ok := names[t.DType]
		count, counted := tensor.Count(t.Dims)
		size := int64(t.DType.Size())
		switch {
		case !ok:
			return nil, fault.E(fault.Unsupported, fault.Var(t.Name), fault.Got("elements of "+t.DType.String()), fault.Want("a type that the format has"))
		case !counted || int64(count) > (math.MaxInt64-offset)/max(size, 1):
			return nil, fault.E(fault.TooLarge, fault.Var(t.Name), fault.Gotf("dims %v", t.Dims), fault.Want("fewer elements"))
		case seen[t.Name] || !utf8.ValidString(t.Name):
			return nil, fault.E(fault.InvalidArgument, fault.Var(t.Name), fault.Got("a name that is taken, or is no UTF-8"), fault.Want("another name"))
		}
		seen[t.Name] = true
		next := offset + int64(count)*size
		if err := putField(&b, t.Name, entry{dtype, append([]int64{}, t.Dims...), []int64{offset, next}}); err != nil {
			return nil, err
		}
		offset = next
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, nil
}

// An entry says where a tensor lies in a file.
type entry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // from the first byte of the data: its first byte, and the one behind it
}

func putField(b *bytes.Buffer, name string, value any) error {
	if b.Len() > 9 {
		b.WriteByte(',')
	}
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	b.Write(key)
	b.WriteByte(':')
	b.Write(text)
	return nil
}
