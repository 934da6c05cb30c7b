package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// each runs something with fold, where this machine has it, and without.
func each[T interface{ Run(string, func(T)) bool }](t T, run func(T)) {
	best := folding
	defer func() { folding = best }()
	if best {
		t.Run("AVX-512", run)
	}
	folding = false
	t.Run("hash/crc32", run)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// TestUpdateIsCastagnoli compares every length up to 2048 at every alignment within a vector, and with sums that do not begin at zero.
func TestUpdateIsCastagnoli(t *testing.T) {
	bytes := random(2048 + 64)
	each(t, func(t *testing.T) {
		for n := range 2049 {
			for offset := range 64 {
				b, crc := bytes[offset:offset+n], uint32(n*offset)*0x9e3779b9
				if got, want := Update(crc, b), crc32.Update(crc, table, b); got != want {
					t.Fatalf("Update(%#x, %d bytes at offset %d) = %#x, want %#x", crc, n, offset, got, want)
				}
			}
		}
	})
}

// TestLongSums compares megabytes, at once and in pieces.
func TestLongSums(t *testing.T) {
	bytes := random(5<<20 + 77)
	want := crc32.Checksum(bytes, table)
	each(t, func(t *testing.T) {
		if got := Checksum(bytes); got != want {
			t.Errorf("Checksum of %d bytes = %#x, want %#x", len(bytes), got, want)
		}
		pieces := rand.New(rand.NewPCG(2, 3))
		sum := uint32(0)
		for rest := bytes; len(rest) > 0; {
			n := min(len(rest), 1+pieces.IntN(1<<pieces.IntN(20)))
			sum = Update(sum, rest[:n])
			rest = rest[n:]
		}
		if sum != want {
			t.Errorf("sum of pieces = %#x, want %#x", sum, want)
		}
	})
}

// TestKnownSums has the sums of RFC 3720, appendix B.4.
func TestKnownSums(t *testing.T) {
	up, ones := make([]byte, 32), make([]byte, 32)
	for i := range up {
		up[i], ones[i] = byte(i), 0xff
	}
	for _, known := range []struct {
		bytes []byte
		sum   uint32
	}{{make([]byte, 32), 0x8a9136aa}, {ones, 0x62a8ab43}, {up, 0x46dd794e}, {[]byte("123456789"), 0xe3069283}} {
		if got := Checksum(known.bytes); got != known.sum {
			t.Errorf("Checksum(% x) = %#x, want %#x", known.bytes, got, known.sum)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte(nil), 0)
	f.Add(uint32(1), random(127), 1)
	f.Add(uint32(0xffffffff), random(256), 255)
	f.Add(uint32(0x80000000), random(1024), 64)
	f.Add(uint32(7), make([]byte, 4096), 320)
	f.Fuzz(func(t *testing.T, crc uint32, b []byte, cut int) {
		want := crc32.Update(crc, table, b)
		cut = min(max(cut, 0), len(b))
		each(t, func(t *testing.T) {
			if got := Update(crc, b); got != want {
				t.Errorf("Update(%#x, %d bytes) = %#x, want %#x", crc, len(b), got, want)
			}
			if got := Update(Update(crc, b[:cut]), b[cut:]); got != want {
				t.Errorf("Update(%#x, %d bytes, cut at %d) = %#x, want %#x", crc, len(b), cut, got, want)
			}
		})
	})
}

// BenchmarkUpdate sums bytes that are in a cache, and bytes that come from memory.
func BenchmarkUpdate(b *testing.B) {
	const memory = 128 << 20
	bytes := random(memory)
	for _, size := range []int{64, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
		for _, span := range []int{size, memory} {
			from := "cache"
			if span == memory {
				from = "memory"
			}
			b.Run(fmt.Sprintf("%d/%s", size, from), func(b *testing.B) {
				each(b, func(b *testing.B) {
					b.SetBytes(int64(size))
					at := 0
					for b.Loop() {
						Update(0, bytes[at:at+size])
						if at += size; at+size > span {
							at = 0
						}
					}
				})
			})
		}
	}
}
