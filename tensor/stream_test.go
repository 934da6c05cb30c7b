package tensor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
)

// Bytes that Fluid writes for small tensors.
const (
	goldenPlain = "00000000 0000000000000000 00000000 06000000 080510021003 0000803f 00000040 00004040 00008040 0000a040 0000c040"
	goldenLoD   = "00000000 0100000000000000 1800000000000000 0000000000000000 0200000000000000 0300000000000000" +
		"00000000 06000000 080510031001 0000803f0000004000004040"
	goldenLoDLast = "00000000 06000000 080510031001 0000803f0000004000004040" +
		"0100000000000000 1800000000000000 0000000000000000 0200000000000000 0300000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t testing.TB, x *Tensor, err error) *Tensor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func equal(a, b *Tensor) bool {
	return bytes.Equal(AppendStream(nil, a), AppendStream(nil, b))
}

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

func anyTensor(t *rapid.T) *Tensor {
	dims := rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 4).Draw(t, "dims")
	dtype := rapid.SampledFrom([]DType{Bool, Int32, Int64, Float32, Float64}).Draw(t, "dtype")
	x, err := New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		switch d := x.data.(type) {
		case []bool:
			d[i] = rapid.Bool().Draw(t, "v")
		case []int32:
			d[i] = rapid.Int32().Draw(t, "v")
		case []int64:
			d[i] = rapid.Int64().Draw(t, "v")
		case []float32:
			d[i] = math.Float32frombits(rapid.Uint32().Draw(t, "v"))
		case []float64:
			d[i] = math.Float64frombits(rapid.Uint64().Draw(t, "v"))
		}
	}
	if len(dims) > 0 && rapid.Bool().Draw(t, "lod") {
		middle := rapid.Int64Range(0, dims[0]).Draw(t, "middle")
		x.SetLoD([][]int64{{0, 2}, {0, middle, dims[0]}})
	}
	return x
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

func TestStreamCutAnywhere(t *testing.T) {
	for _, golden := range []string{goldenPlain, goldenLoD, goldenLoDLast} {
		b := unhex(t, golden)
		for n := range b {
			_, _, err := DecodeStream(b[:n], Limits{})
			if !errors.Is(err, fault.Corrupt) || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("first %d of %d bytes: decoded with error %v", n, len(b), err)
			}
			if _, err := Read(bytes.NewReader(b[:n]), Limits{}); !errors.Is(err, fault.Corrupt) {
				t.Errorf("first %d of %d bytes: read with error %v", n, len(b), err)
			}
		}
	}
}

func TestStreamRefusals(t *testing.T) {
	head := "00000000 0000000000000000 00000000 "
	for name, c := range map[string]struct {
		hex    string
		limits Limits
		kind   fault.Kind
	}{
		"stream version":    {"01000000" + strings.Repeat("00", 30), Limits{}, fault.Unsupported},
		"tensor version":    {"00000000 0000000000000000 01000000 02000000 0805", Limits{}, fault.Unsupported},
		"levels over limit": {"00000000 0900000000000000", Limits{}, fault.TooLarge},
		"lying level":       {"00000000 0100000000000000 00000000ffffffff", Limits{}, fault.TooLarge},
		"odd level":         {"00000000 0100000000000000 0900000000000000 000000000000000000", Limits{}, fault.Corrupt},
		"empty level":       {"00000000 0100000000000000 0000000000000000", Limits{}, fault.Corrupt},
		"level from 1": {"00000000 0100000000000000 0800000000000000 0100000000000000 00000000 04000000 08051001 0000803f", Limits{},
			fault.Corrupt},
		"level beyond dims":    {strings.Replace(goldenLoD, "0300000000000000", "0400000000000000", 1), Limits{}, fault.Corrupt},
		"level falls":          {strings.Replace(goldenLoD, "0200000000000000", "0900000000000000", 1), Limits{}, fault.Corrupt},
		"negative description": {head + "ffffffff", Limits{}, fault.Corrupt},
		"long description":     {head + "00100001", Limits{}, fault.Corrupt},
		"no data type":         {head + "02000000 1001", Limits{}, fault.Unsupported},
		"unknown data type":    {head + "02000000 0807", Limits{}, fault.Unsupported},
		"broken varint":        {head + "02000000 08ff", Limits{}, fault.Corrupt},
		"negative dim":         {head + "0d000000 0805 10ffffffffffffffffff01", Limits{}, fault.Corrupt},
		"overflowing dims":     {head + "16000000 0805 10ffffffffffffffff7f 10ffffffffffffffff7f", Limits{}, fault.Corrupt},
		"rank":                 {goldenPlain, Limits{Rank: 1}, fault.TooLarge},
		"bytes":                {goldenPlain, Limits{Bytes: 23}, fault.TooLarge},
		"gigabytes":            {head + "08000000 0805 10808080800c 0000", Limits{}, fault.TooLarge},
		"half floats":          {head + "04000000 0804 1001 003c", Limits{}, fault.Unsupported},
		"uint8":                {head + "04000000 0814 1001 01", Limits{}, fault.Unsupported},
		"bool of 2":            {head + "04000000 0800 1001 02", Limits{}, fault.Corrupt},
	} {
		b := unhex(t, c.hex)
		if _, _, err := DecodeStream(b, c.limits); !errors.Is(err, c.kind) {
			t.Errorf("%s: decoded with error %v, want %v", name, err, c.kind)
		}
		if _, err := Read(bytes.NewReader(b), c.limits); !errors.Is(err, c.kind) {
			t.Errorf("%s: read with error %v, want %v", name, err, c.kind)
		}
	}
}

func TestReadReportsTheReadersOwnError(t *testing.T) {
	broken := errors.New("disk on fire")
	b := unhex(t, goldenPlain)
	_, err := Read(io.MultiReader(bytes.NewReader(b[:30]), iotest.ErrReader(broken)), Limits{})
	if !errors.Is(err, broken) || errors.Is(err, fault.Corrupt) {
		t.Fatalf("got %v", err)
	}
}

func TestReadAllocatesWhatArrives(t *testing.T) {
	// 1 GiB of float32 is promised within the limits, and nothing follows.
	b := unhex(t, "00000000 0000000000000000 00000000 08000000 0805 108080808001")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Read(bytes.NewReader(b), Limits{}); !errors.Is(err, fault.Corrupt) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 1<<20 {
		t.Fatalf("a stream of %d bytes made Read allocate %d", len(b), allocated)
	}
}

func TestPackedDimsAndUnknownFields(t *testing.T) {
	b := unhex(t, "00000000 0000000000000000 00000000 08000000 0805 12020102 1807 0000803f 00000040")
	got, _, err := DecodeStream(b, Limits{})
	if err != nil || got.String() != "float32[1 2]" || got.Float32s()[1] != 2 {
		t.Fatalf("decoded %v, error %v", got, err)
	}
}
