package kernel

// philox4x32 is Philox4x32-10, which maps a 128-bit counter (c0 to c3) and a 64-bit key (k0, k1), words least significant
// first, to 128 random bits (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). It has
// no state: the numbers of any part of an array can be computed without the others, which is what makes a parameter
// start equal whole and sliced.
func philox4x32(c0, c1, c2, c3, k0, k1 uint32) (r0, r1, r2, r3 uint32) {
	const (
		multiplier0, multiplier1 = 0xD2511F53, 0xCD9E8D57
		weyl0, weyl1             = 0x9E3779B9, 0xBB67AE85
		rounds                   = 10
	)
	for range rounds {
		product0, product1 := multiplier0*uint64(c0), multiplier1*uint64(c2)
		c0, c1 = uint32(product1>>32)^c1^k0, uint32(product1)
		c2, c3 = uint32(product0>>32)^c3^k1, uint32(product0)
		k0 += weyl0
		k1 += weyl1
	}
	return c0, c1, c2, c3
}

// random64 returns the 64 random bits of element index of a stream. The key is the seed; the upper half of the counter
// is the stream and the lower half is index/2, so different streams of one seed never meet. The first word pair of a
// block serves the even index, the second the odd one.
func random64(seed int64, stream, index uint64) uint64 {
	block, key := index>>1, uint64(seed)
	r0, r1, r2, r3 := philox4x32(uint32(block), uint32(block>>32), uint32(stream), uint32(stream>>32), uint32(key), uint32(key>>32))
	if index&1 == 0 {
		return uint64(r1)<<32 | uint64(r0)
	}
	return uint64(r3)<<32 | uint64(r2)
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
