package kernel

import "math/bits"

// Philox4x32-10 maps a 128-bit counter and a 64-bit key to 128 random bits (Salmon, Moraes, Dror and Shaw 2011, "Parallel
// random numbers: as easy as 1, 2, 3"). Words are least significant first. It has no state: the numbers of any part of
// an array can be computed without the others, which is what makes a parameter start equal whole and sliced.
func philox4x32(counter [4]uint32, key [2]uint32) [4]uint32 {
	const (
		multiplier0, multiplier1 = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1             = 0x9E3779B9, 0xBB67AE85
		rounds                   = 10
	)
	for range rounds {
		high0, low0 := bits.Mul32(multiplier0, counter[0])
		high1, low1 := bits.Mul32(multiplier1, counter[2])
		counter = [4]uint32{high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0}
		key[0] += weyl0
		key[1] += weyl1
	}
	return counter
}

// random64 returns the 64 random bits of element index of a stream. The key is the seed; the upper half of the counter
// is the stream and the lower half the index/2, so different streams of one seed never meet. The first word pair of a
// block serves the even index, the second the odd one.
func random64(seed int64, stream, index uint64) uint64 {
	block := index >> 1
	r := philox4x32(
		[4]uint32{uint32(block), uint32(block >> 32), uint32(stream), uint32(stream >> 32)},
		[2]uint32{uint32(seed), uint32(uint64(seed) >> 32)})
	if index&1 == 0 {
		return uint64(r[1])<<32 | uint64(r[0])
	}
	return uint64(r[3])<<32 | uint64(r[2])
}

// StreamOf derives the number of a random stream from names, such as those of a job and a variable: 64-bit FNV-1a over each
// name's length and bytes. Equal names give equal streams in every process and release.
func StreamOf(names ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for _, name := range names {
		for n, i := uint64(len(name)), 0; i < 8; i++ {
			hash = (hash ^ n&0xff) * prime
			n >>= 8
		}
		for i := range len(name) {
			hash = (hash ^ uint64(name[i])) * prime
		}
	}
	return hash
}
