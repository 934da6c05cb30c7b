package kernel

import "math/bits"

// stripeBits bounds the stripes of a table: at most 2^stripeBits.
const stripeBits = 8

// Stripes is the order in which servers keep the rows of a table that trainers name by ids. Ids are often skewed: those that are frequent lie next to each
// other, since ids are given by frequency, or field by field. In this order any run of rows has an even share of them, so slices are runs of it. It
// depends on the number of rows alone, not on the number of servers.
//
// A table has a power of two stripes: 256, or as many as it has rows, rounded down. Of each block of so many consecutive rows, each stripe has one, and its
// rows are in ascending order. A stripe begins with the rows of the first blocks. Consecutive rows of a block go to stripes that lie far apart: row i of a block to stripe
// reverse(i) xor hash(block), where reverse turns the order of the bits around. The hash makes ids even that have a common factor. The rows that make up no
// whole block follow all stripes.
//
// With Fluid, row r is on server r modulo the number of servers. With 2^n servers each takes one of 2^n consecutive rows here too.
type Stripes struct {
	each int64 // rows of a stripe
	bits int   // 2^bits stripes
}

// StripesOf is the order of a table of so many rows.
func StripesOf(rows int64) Stripes {
	n := min(stripeBits, bits.Len64(uint64(max(rows, 1)))-1)
	return Stripes{max(rows, 0) >> n, n}
}

// Position is where a row of the table is in the order, from 0 on.
func (s Stripes) Position(row int64) int64 {
	block := row >> s.bits
	if block >= s.each {
		return row
	}
	reversed := int64(bits.Reverse8(uint8(row<<(stripeBits-s.bits)))) & (1<<s.bits - 1)
	return (reversed^s.turn(block))*s.each + block
}

// Row is the row at a position of the order: the inverse of Position.
func (s Stripes) Row(position int64) int64 {
	if position >= s.each<<s.bits {
		return position
	}
	stripe, block := position/s.each, position%s.each
	within := int64(bits.Reverse8(uint8((stripe ^ s.turn(block)) << (stripeBits - s.bits))))
	return block<<s.bits | within&(1<<s.bits-1)
}

// turn is the hash of a block, below the number of stripes.
func (s Stripes) turn(block int64) int64 {
	return int64(uint64(MixKey(block)) >> (64 - stripeBits) >> (stripeBits - s.bits))
}
