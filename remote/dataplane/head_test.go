package dataplane

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

func sumOf(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// seal makes the checksum of a head right.
func seal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[60:], sumOf(b[:60]))
	return b
}

func putHead(h Head) []byte {
	b := make([]byte, HeadBytes)
	h.put(b)
	return b
}

// Every head that may be sent is read as it was.
func TestHeadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Head{Kind: Kind(rapid.Uint8Range(1, uint8(len(kindNames)-1)).Draw(t, "kind")), Flags: rapid.SampledFrom([]uint8{0, Last, AnyVersion}).Draw(t, "flags"),
			Generation: id.Generation(rapid.Uint64().Draw(t, "generation")), Round: id.Round(rapid.Uint64().Draw(t, "round")),
			Rank: id.Rank(rapid.Uint32().Draw(t, "rank")), bodySum: rapid.Uint32().Draw(t, "sum")}
		if h.Kind == Data || h.Kind == Params {
			h.Parts = rapid.Uint32().Draw(t, "parts")
			h.Body = uint64(h.Parts)*partBytes + rapid.Uint64Range(0, FrameBytes).Draw(t, "body")
		} else {
			h.Body = rapid.Uint64Range(0, maxMessage).Draw(t, "body")
		}
		b := putHead(h)
		if got, err := parseHead(b); err != nil || got != h {
			t.Fatalf("%+v is read as %+v, %v", h, got, err)
		}
		bit := rapid.IntRange(0, 8*HeadBytes-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if got, err := parseHead(b); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("with bit %d changed it is read as %+v, %v", bit, got, err)
		}
	})
}

// A head with any byte changed is refused, and another try may help.
func TestHeadDamage(t *testing.T) {
	good := putHead(Head{Kind: Params, Flags: Last, Generation: 1, Round: 2, Rank: 4, Parts: 7, Body: 8 * partBytes})
	for i := range good {
		for x := 1; x < 256; x++ {
			b := append([]byte(nil), good...)
			b[i] ^= byte(x)
			if h, err := parseHead(b); !errors.Is(err, fault.Unavailable) {
				t.Fatalf("byte %d changed by %#x: %+v, %v", i, x, h, err)
			}
		}
	}
}

// The layout of a head is that of the package doc: both ends may be of different builds.
func TestHeadLayout(t *testing.T) {
	b := putHead(Head{Kind: Declare, Flags: Last, Generation: 0x0807060504030201, Round: 0x1817161514131211, Rank: 0x28272625,
		Parts: 0x54535251, Body: 0x6867666564636261, bodySum: 0x74737271})
	want := "EDLd\x02\x01\x00\x00" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\x11\x12\x13\x14\x15\x16\x17\x18" + "\x00\x00\x00\x00\x25\x26\x27\x28" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x51\x52\x53\x54" + "\x61\x62\x63\x64\x65\x66\x67\x68" + "\x71\x72\x73\x74"
	if string(b[:60]) != want {
		t.Errorf("%q\nwant %q", b[:60], want)
	}
}

// What no version of this build sends is refused for good, although its checksum is right.
func TestHeadLimits(t *testing.T) {
	raw := func(change func(b []byte)) []byte {
		b := putHead(Head{Kind: Data})
		change(b)
		return seal(b)
	}
	for name, c := range map[string]struct {
		b    []byte
		kind fault.Kind
	}{
		"kind 0":                     {raw(func(b []byte) { b[4] = 0 }), fault.Corrupt},
		"the first unknown kind":     {raw(func(b []byte) { b[4] = byte(len(kindNames)) }), fault.Corrupt},
		"kind 255":                   {raw(func(b []byte) { b[4] = 255 }), fault.Corrupt},
		"an unknown flag":            {raw(func(b []byte) { b[5] = 16 }), fault.Corrupt},
		"byte 6":                     {raw(func(b []byte) { b[6] = 1 }), fault.Corrupt},
		"byte 7":                     {raw(func(b []byte) { b[7] = 1 }), fault.Corrupt},
		"byte 24":                    {raw(func(b []byte) { b[24] = 1 }), fault.Corrupt},
		"byte 27":                    {raw(func(b []byte) { b[27] = 1 }), fault.Corrupt},
		"byte 32":                    {raw(func(b []byte) { b[32] = 1 }), fault.Corrupt},
		"byte 43":                    {raw(func(b []byte) { b[43] = 1 }), fault.Corrupt},
		"slices over a frame":        {putHead(Head{Kind: Data, Parts: 2, Body: FrameBytes + 2*partBytes + 1}), fault.TooLarge},
		"parameters over a frame":    {putHead(Head{Kind: Params, Parts: 1, Body: math.MaxUint64}), fault.TooLarge},
		"a body without its list":    {putHead(Head{Kind: Data, Parts: 2, Body: 2*partBytes - 1}), fault.TooLarge},
		"parts of a declaration":     {putHead(Head{Kind: Declare, Parts: 1, Body: partBytes}), fault.TooLarge},
		"a request over a frame":     {putHead(Head{Kind: Get, Body: maxMessage + 1}), fault.TooLarge},
		"a declaration over a frame": {putHead(Head{Kind: Declare, Body: maxMessage + 1}), fault.TooLarge},
		"a fault over a frame":       {putHead(Head{Kind: Fault, Body: math.MaxUint64}), fault.TooLarge},
		"an acknowledgement":         {putHead(Head{Kind: Ack, Body: maxMessage + 1}), fault.TooLarge},
	} {
		if h, err := parseHead(c.b); !errors.Is(err, c.kind) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		if _, err := reading(c.b).ReadHead(); !errors.Is(err, c.kind) {
			t.Errorf("%s, from a connection: %v", name, err)
		}
	}
	for _, h := range []Head{
		{Kind: Data, Parts: 2, Body: FrameBytes + 2*partBytes}, {Kind: Data}, {Kind: Params, Parts: 3, Body: 3 * partBytes}, {Kind: Declare, Body: maxMessage},
	} {
		if _, err := parseHead(putHead(h)); err != nil {
			t.Error(err)
		}
	}
}

func TestKindNames(t *testing.T) {
	for k, want := range map[Kind]string{0: "unknown", Data: "data", Declare: "declare", Ack: "ack", Params: "params", Fault: "fault", Welcome: "welcome", Get: "get", 200: "unknown"} {
		if got := k.String(); got != want {
			t.Errorf("kind %d is %q, want %q", k, got, want)
		}
	}
}

// FuzzHead reads any 64 bytes as a head. One that is taken is written as it was.
func FuzzHead(f *testing.F) {
	f.Add(putHead(Head{Kind: Data, Parts: 2, Body: 100}))
	f.Add(putHead(Head{Kind: Declare, Body: 30}))
	f.Add(putHead(Head{Kind: Params, Flags: Last, Parts: math.MaxUint32, Body: math.MaxUint64}))
	f.Add(make([]byte, HeadBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != HeadBytes {
			return
		}
		if h, err := parseHead(b); err == nil && string(putHead(h)) != string(b) {
			t.Errorf("%q is read as %+v", b, h)
		}
		copy(b, magic)
		h, err := parseHead(seal(b))
		if err == nil && string(putHead(h)) != string(b) {
			t.Errorf("%q is read as %+v", b, h)
		}
		if err == nil && h.Body > maxMessage && h.Body > FrameBytes+uint64(h.Parts)*partBytes {
			t.Errorf("a body of %d bytes", h.Body)
		}
		if err != nil && !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.TooLarge) {
			t.Error(err)
		}
	})
}
