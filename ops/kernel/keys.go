package kernel

import "math/bits"

// A table that grows has a row for each key that it has met, where a key is any int64 but -1. A key is mixed first (MixKey): mixed keys are spread evenly,
// whatever the keys are. All of the table works on mixed keys, and 0, that of the key -1, stands for no key.
//
// The rows of the table lie in KeyRegions regions of equal size. The upper bits of a mixed key say in which region its row is. Where the row is within its
// region (keytable.go) depends on what has happened to keys of this region, and on nothing else: not on which regions one memory holds.

// KeyRegions is how many regions a table has. A server holds whole regions.
const KeyRegions = 1 << regionBits

const regionBits = 6

// NoKey is the key that never has a row.
const NoKey = -1

// MixKey is a bijection of 64-bit integers that spreads keys evenly: the last step of SplitMix64 (Steele, Lea and Flood 2014). Only NoKey gives 0.
func MixKey(key int64) int64 {
	x := uint64(key) + 1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31)
}

// KeyOf is the inverse of MixKey.
func KeyOf(mixed int64) int64 {
	x := uint64(mixed)
	x = (x ^ x>>31 ^ x>>62) * 0x319642b2d24d8ec3
	x = (x ^ x>>27 ^ x>>54) * 0x96de1b173f119089
	return int64((x ^ x>>30 ^ x>>60) - 1)
}

// RegionOf is the region of a mixed key.
func RegionOf(mixed int64) int { return int(uint64(mixed) >> (64 - regionBits)) }

// KeyRow is the number of a mixed key among the rows of a sparse gradient. There, the height stands for the end of the rows, so the key that equals it is 0.
func KeyRow(mixed, height int64) int64 {
	if mixed == height {
		return 0
	}
	return mixed
}

// KeyOfRow is the inverse of KeyRow.
func KeyOfRow(row, height int64) int64 {
	if row == 0 {
		return height
	}
	return row
}

// An InitialRow says what the elements of a row are before its first update: uniform numbers that depend on the seed, the table and the key alone.
type InitialRow struct {
	Seed      int64
	Table     uint64 // StreamOf the name of the table
	Low, High float64
}

// Fill writes the row of a mixed key.
func (r InitialRow) Fill(out []float32, mixed int64) {
	UniformFill(out, r.Seed^int64(r.Table), uint64(mixed), 0, r.Low, r.High)
}

// Admits reports whether chance lets a mixed key into the table in a round, with a probability. It depends on the seed, the table, the key and the round alone.
func (r InitialRow) Admits(mixed, round int64, probability float64) bool {
	const behindRows = 1 << 62 // indexes that no element of a row has
	return uniform(r.Seed^int64(r.Table), uint64(mixed), behindRows|uint64(round)) < probability
}

// LookUpKeys copies the rows of mixed keys from a table to out: those that the table has, initial rows for others, and zeros for 0. Rows are width long, and the
// table has the rows of t. Initial rows are as the table stores them.
func LookUpKeys[T Stored](out []float32, table []T, t KeyTable, initial InitialRow, mixed []int64, width int) {
	var found [rowsAhead]int64
	for len(mixed) > 0 {
		some := mixed[:min(rowsAhead, len(mixed))]
		rows := found[:len(some)]
		missing := t.findAll(rows, some)
		if bits.OnesCount64(missing) < len(some) {
			GatherWide(out[:len(some)*width], table, rows, width)
		}
		for ; missing != 0; missing &= missing - 1 {
			i := bits.TrailingZeros64(missing)
			if to := out[i*width:][:width]; some[i] == 0 {
				clear(to)
			} else {
				initial.Fill(to, some[i])
				if _, halves := any(table).([]uint16); halves {
					NarrowInPlace(to)
				}
			}
		}
		out, mixed = out[len(some)*width:], mixed[len(some):]
	}
}

// OrderKeys is OrderRows for mixed keys. In place of a row, an entry has the rank of the key: the number of different keys below it, where keys are without
// sign. different gets the keys in this order, each once, and n is how many they are. All slices have the length of keys.
func OrderKeys(order, spare, different, keys []int64) (ordered []int64, n int) {
	order, spare = order[:len(keys)], spare[:len(keys)]
	if len(keys) <= fewKeys {
		placesOfFew(order, keys)
	} else {
		for i := range order {
			order[i] = int64(i)
		}
		for shift := 0; shift < 64; shift += digitBits {
			placesByDigit(spare, order, keys, shift)
			order, spare = spare, order
		}
	}
	shift := placeBits(len(keys))
	for i, place := range order {
		if key := keys[place]; n == 0 || different[n-1] != key {
			different[n] = key
			n++
		}
		order[i] = int64(n-1)<<shift | place
	}
	return order, n
}

// fewKeys is how many keys are sorted by insertion. Above it passes over digits, with a count for each digit, are faster.
const fewKeys = 192

// placesOfFew fills order with the places of keys, stably sorted by key without sign.
func placesOfFew(order, keys []int64) {
	for i, key := range keys {
		at := i
		for at > 0 && uint64(keys[order[at-1]]) > uint64(key) {
			order[at] = order[at-1]
			at--
		}
		order[at] = int64(i)
	}
}

// placesByDigit writes from to out, stably sorted by a digit of the key at each place.
func placesByDigit(out, from, keys []int64, shift int) {
	var starts [1 << digitBits]int32
	const mask = 1<<digitBits - 1
	for _, key := range keys {
		starts[uint64(key)>>shift&mask]++
	}
	start := int32(0)
	for i := range starts {
		start, starts[i] = start+starts[i], start
	}
	for _, place := range from {
		at := &starts[uint64(keys[place])>>shift&mask]
		out[*at] = place
		*at++
	}
}

// KeysBefore returns how many of different mixed keys, in the order of OrderKeys, are in regions below one.
func KeysBefore(different []int64, region int) int {
	low, high := 0, len(different)
	for low < high {
		if mid := int(uint(low+high) >> 1); RegionOf(different[mid]) < region {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
