package tensor

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/edl-go/edl/fault"
)

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

// FuzzStream holds both decoders to the same verdict, but for types that only Read widens, and what they accept to a stable written form.
func FuzzStream(f *testing.F) {
	for _, golden := range []string{goldenPlain, goldenLoD, goldenLoDLast} {
		f.Add(unhex(f, golden))
	}
	f.Add(unhex(f, "00000000 0000000000000000 00000000 04000000 08013030 3030")) // of int16
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := Limits{Bytes: 1 << 20}
		decoded, rest, err := DecodeStream(b, limits)
		src := bytes.NewReader(b)
		read, readErr := Read(src, limits)
		if errors.Is(err, fault.Unsupported) && readErr == nil {
			return // Read widens types that DecodeStream refuses
		}
		if (err == nil) != (readErr == nil) {
			t.Fatalf("DecodeStream: %v, Read: %v", err, readErr)
		}
		if err != nil {
			return
		}
		if src.Len() != len(rest) || !equal(decoded, read) {
			t.Fatalf("DecodeStream left %d bytes of %v, Read %d of %v", len(rest), decoded, src.Len(), read)
		}
		again, _, err := DecodeStream(AppendStream(nil, decoded), limits)
		if err != nil || !equal(again, decoded) {
			t.Fatalf("%v is not read back: %v", decoded, err)
		}
	})
}

// FuzzSelectedRows holds what is accepted to a stable written form.
func FuzzSelectedRows(f *testing.F) {
	value, _ := FromSlice([]float32{1, 2}, 2, 1)
	f.Add(AppendSelectedRows(nil, &SelectedRows{Rows: []int64{5, 7}, Height: 10, Value: value}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := DecodeSelectedRows(b, Limits{Bytes: 1 << 20})
		if err != nil {
			return
		}
		if _, rest, err := DecodeSelectedRows(AppendSelectedRows(nil, s), Limits{}); err != nil || len(rest) != 0 {
			t.Fatalf("not read back: rest %d, %v", len(rest), err)
		}
	})
}
