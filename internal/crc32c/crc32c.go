// Package crc32c computes the checksum that guards frames of the data plane: CRC-32 with the polynomial of Castagnoli. Its sums are those of
// hash/crc32. It is faster, above all for bytes that come from memory: it reads them in one stream, where hash/crc32 reads three. See
// docs/performance.md.
//
// On amd64 long runs of bytes go through carry-less multiplication, in assembly that ops/kernel/internal/gen writes; that generator names the method.
// All else, other machines, and the build tag purego take hash/crc32.
//
//	crc32c.go                       sums
//	fold_amd64.go, fold_amd64.s     whole vectors of bytes
//	fold_other.go                   machines without
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the sum of b.
func Checksum(b []byte) uint32 { return Update(0, b) }

// What fold takes, in bytes.
const (
	vector = 64         // a multiple of it
	least  = 4 * vector // at least
)

// folding reports whether sums use fold. A test may change it.
var folding = folds()

// Update returns the sum of bytes whose sum is crc, followed by b.
func Update(crc uint32, b []byte) uint32 {
	if len(b) >= least && folding {
		n := len(b) &^ (vector - 1)
		crc = ^fold(^crc, b[:n])
		b = b[n:]
	}
	return crc32.Update(crc, table, b)
}
