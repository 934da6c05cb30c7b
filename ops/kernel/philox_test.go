package kernel

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// The known answers for philox4x32-10 of the Random123 library (kat_vectors).
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = philox4x32(c.counter[0], c.counter[1], c.counter[2], c.counter[3], c.key[0], c.key[1])
		if got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// Seed, stream and index must each land in their own part of counter and key.
func TestRandom64UsesEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, stream, index := rapid.Int64().Draw(t, "seed"), rapid.Uint64().Draw(t, "stream"), rapid.Uint64().Draw(t, "index")
		bit := uint64(1) << rapid.IntRange(0, 63).Draw(t, "bit")
		base := random64(seed, stream, index)
		for name, other := range map[string]uint64{
			"seed":   random64(int64(uint64(seed)^bit), stream, index),
			"stream": random64(seed, stream^bit, index),
			"index":  random64(seed, stream, index^bit),
		} {
			if other == base {
				t.Fatalf("changing bit %#x of the %s changes nothing", bit, name)
			}
		}
	})
}

func TestStreamOf(t *testing.T) {
	hash := fnv.New64a()
	hash.Write([]byte("\x03\x00\x00\x00\x00\x00\x00\x00fc_\x01\x00\x00\x00\x00\x00\x00\x00w"))
	if got, want := StreamOf("fc_", "w"), hash.Sum64(); got != want {
		t.Errorf("the stream of fc_ and w is %#x, want %#x", got, want)
	}
	seen := map[uint64][]string{}
	for _, names := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}} {
		s := StreamOf(names...)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q share a stream", names, other)
		}
		seen[s] = names
	}
}
