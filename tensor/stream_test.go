package tensor

import (
	"bytes"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestStreamGolden(t *testing.T) {
	plain, err := FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	must(t, plain, err)
	lod, err := FromSlice([]float32{1, 2, 3}, 3, 1)
	must(t, lod, err).SetLoD([][]int64{{0, 2, 3}})
	for name, c := range map[string]struct {
		hex  string
		want *Tensor
	}{"plain": {goldenPlain, plain}, "lod": {goldenLoD, lod}} {
		b := unhex(t, c.hex)
		if got := AppendStream(nil, c.want); !bytes.Equal(got, b) {
			t.Errorf("%s: wrote %x, want %x", name, got, b)
		}
		got, rest, err := DecodeStream(append(b, 7), Limits{})
		if err != nil || !equal(got, c.want) || !bytes.Equal(rest, []byte{7}) {
			t.Errorf("%s: decoded %v, rest %x, error %v", name, got, rest, err)
		}
	}
}

func TestStreamOf2017HasLoDLast(t *testing.T) {
	b := unhex(t, goldenLoDLast)
	want, _, err := DecodeStream(unhex(t, goldenLoD), Limits{})
	must(t, want, err)
	got, rest, err := DecodeStream(b, Limits{})
	if err != nil || len(rest) != 0 || !equal(got, want) {
		t.Fatalf("decoded %v with LoD %v, rest %x, error %v", got, got.LoD(), rest, err)
	}
	if got, err = Read(bytes.NewReader(b), Limits{}); err != nil || !equal(got, want) {
		t.Fatalf("read %v, error %v", got, err)
	}
}

func TestStreamRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := anyTensor(t)
		b := AppendStream(nil, x)
		decoded, rest, err := DecodeStream(b, Limits{})
		if err != nil || len(rest) != 0 || !equal(decoded, x) || decoded.String() != x.String() {
			t.Fatalf("decoded %v from %v: rest %d, %v", decoded, x, len(rest), err)
		}
		read, err := Read(iotest.OneByteReader(bytes.NewReader(append(b, 1))), Limits{})
		if err != nil || !equal(read, x) {
			t.Fatalf("read %v from %v: %v", read, x, err)
		}
		var file bytes.Buffer
		if n, err := x.WriteTo(&file); err != nil || n != int64(len(b)) || !bytes.Equal(file.Bytes(), b) {
			t.Fatalf("wrote %d bytes of %d: %v", n, len(b), err)
		}
	})
}

func TestStreamLargerThanOneBlock(t *testing.T) {
	x, err := New(Float32, 3, blockBytes/4)
	must(t, x, err)
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(i)
	}
	var file bytes.Buffer
	if _, err := x.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	file.WriteString("next")
	got, err := Read(&file, Limits{})
	if err != nil || !equal(got, x) || file.String() != "next" {
		t.Fatalf("read %v, %d bytes left, error %v", got, file.Len(), err)
	}
}

func TestPackedDimsAndUnknownFields(t *testing.T) {
	b := unhex(t, "00000000 0000000000000000 00000000 08000000 0805 12020102 1807 0000803f 00000040")
	got, _, err := DecodeStream(b, Limits{})
	if err != nil || got.String() != "float32[1 2]" || got.Float32s()[1] != 2 {
		t.Fatalf("decoded %v, error %v", got, err)
	}
}
