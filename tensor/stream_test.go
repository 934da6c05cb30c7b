package tensor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/edl-go/edl/fault"
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

func TestCopyIntoABatch(t *testing.T) {
	batch, err := New(Float32, 2, 3)
	must(t, batch, err)
	for row := range 2 {
		sample, err := FromSlice([]float32{float32(10 * row), float32(10*row + 1), float32(10*row + 2)})
		must(t, sample, err)
		var s Stream
		if _, err := s.Parse(AppendStream(nil, sample), Limits{}); err != nil {
			t.Fatal(err)
		}
		if err := s.CopyInto(batch, 3*row); err != nil {
			t.Fatal(err)
		}
	}
	want, err := FromSlice([]float32{0, 1, 2, 10, 11, 12}, 2, 3)
	must(t, want, err)
	if !equal(batch, want) {
		t.Fatalf("batch holds %v", batch.Float32s())
	}
}

func TestCopyIntoRefuses(t *testing.T) {
	var s Stream
	if _, err := s.Parse(unhex(t, goldenPlain), Limits{}); err != nil {
		t.Fatal(err)
	}
	small, err := New(Float32, 6)
	must(t, small, err)
	other, err := New(Int64, 6)
	must(t, other, err)
	for _, c := range []struct {
		dst    *Tensor
		offset int
		kind   fault.Kind
	}{{small, 1, fault.ShapeMismatch}, {small, -1, fault.ShapeMismatch}, {small, 7, fault.ShapeMismatch}, {other, 0, fault.TypeMismatch}} {
		if err := s.CopyInto(c.dst, c.offset); !errors.Is(err, c.kind) {
			t.Errorf("into %v at %d: %v, want %v", c.dst, c.offset, err, c.kind)
		}
	}
}

func TestParseAllocatesNothingOnceWarm(t *testing.T) {
	b := unhex(t, goldenLoD)
	batch, err := New(Float32, 3)
	must(t, batch, err)
	var s Stream
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := s.Parse(b, Limits{}); err != nil {
			t.Fatal(err)
		}
		if err := s.CopyInto(batch, 0); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations a record", allocs)
	}
}

func TestAppendStreamAllocatesOnce(t *testing.T) {
	scalar, err := FromSlice([]float32{1})
	must(t, scalar, err)
	wide, err := New(Float64, make([]int64, MaxRank)...)
	must(t, wide, err)
	long, err := New(Float32, 1000)
	must(t, long, err)
	for _, x := range []*Tensor{scalar, wide, long} {
		if n := testing.AllocsPerRun(10, func() { AppendStream(nil, x) }); n != 1 {
			t.Errorf("%v: %v allocations", x, n)
		}
	}
}

func TestSelectedRowsStream(t *testing.T) {
	value, err := FromSlice([]float32{1, 2}, 2, 1)
	must(t, value, err)
	golden := unhex(t, "00000000 0200000000000000 0500000000000000 0700000000000000 0a00000000000000 00000000 06000000 080510021001 0000803f00000040")
	if got := AppendSelectedRows(nil, &SelectedRows{Rows: []int64{5, 7}, Height: 10, Value: value}); !bytes.Equal(got, golden) {
		t.Fatalf("wrote %x", got)
	}
	got, rest, err := DecodeSelectedRows(append(golden, 9), Limits{})
	if err != nil || len(rest) != 1 || got.Height != 10 || got.Rows[0] != 5 || got.Rows[1] != 7 || !equal(got.Value, value) {
		t.Fatalf("decoded %+v, rest %x, error %v", got, rest, err)
	}
	for n := range golden {
		if _, _, err := DecodeSelectedRows(golden[:n], Limits{}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
	for _, c := range []struct {
		at   int
		to   byte
		kind fault.Kind
	}{{12, 10, fault.Corrupt}, {27, 0x80, fault.Corrupt}, {4, 1, fault.Unsupported}, {10, 1, fault.TooLarge}, {35, 0x80, fault.Corrupt},
		{47, 3, fault.Corrupt}} {
		b := bytes.Clone(golden)
		b[c.at] = c.to
		if _, _, err := DecodeSelectedRows(b, Limits{}); !errors.Is(err, c.kind) {
			t.Errorf("byte %d as %d: %v, want %v", c.at, c.to, err, c.kind)
		}
	}
}

// Parameter files of real Fluid are one stream each and end with it.
func TestRealParameterFiles(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is unset: no files of real Fluid")
	}
	for pattern, dims := range map[string]string{
		"models/mnist_conv/conv2d_0.w_0": "float32[20 1 5 5]",
		"models/mnist_conv/*.*_?":        "",
		"models/mnist_mlp_2018/fc_*":     "",
		"models/uci_housing/fc_0.w_0":    "float32[13 1]",
		"models/fit_a_line_2018/fc_*":    "",
		"models/dqn_pong/policy_*":       "",
		"models/word2vec/*_?":            "",
	} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files, error %v", pattern, err)
		}
		for _, path := range paths {
			if filepath.Base(path) == "__model__" {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			x, rest, err := DecodeStream(b, Limits{})
			if err != nil || len(rest) != 0 {
				t.Errorf("%s: %d bytes left, error %v", path, len(rest), err)
				continue
			}
			if dims != "" && x.String() != dims {
				t.Errorf("%s: %v, want %s", path, x, dims)
			}
			if !bytes.Equal(AppendStream(nil, x), b) {
				t.Errorf("%s: is not written back as it was read", path)
			}
		}
	}
}
