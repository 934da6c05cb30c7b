package kernel

import (
	"math"
	"math/bits"
	"sort"
)

// Rows of a region are dense. Those in use come first. A new key gets the row behind them, and when a key goes, the last row takes its place. So rows that were
// never in use are never touched, and the system gives no memory to them: a table costs what its keys need, however many rows it has room for.
//
// A key may be a candidate before it has a row: it is counted how often it was seen. Candidates come from the end of the region down, and have no values.
//
// An index of the region finds keys, by open addressing with linear probing: at the first free place from one on that the hash says it has the row. An entry has
// the row plus 1 in its lower 26 bits, then a bit that says that the key is a candidate, and 5 bits of the key, by which most rows of other keys are not looked
// at. What goes is filled by entries behind it (Knuth, The Art of Computer Programming 3, 6.4, algorithm R), so probes never grow.
const (
	stampBits    = 6
	entryRowBits = 26
	entryRow     = 1<<entryRowBits - 1
	isCandidate  = 1 << entryRowBits
	tagShift     = entryRowBits + 1
)

// MostKeyRows is how many rows a table that grows may have: KeyRegions times the rows that an entry of its index can name.
const MostKeyRows = KeyRegions << (entryRowBits - 1)

// A stamp says when a key was last seen: the number of a time span, from 1 on, and after Stamps again 1. How old a key is can be told for less than Stamps.
const Stamps = 1<<stampBits - 1

// oldest is the age of all keys that are older: what is older becomes that old before it could seem new.
const oldest = Stamps * 3 / 4

// A KeyTable says which key has which row, for some neighbouring regions of a table.
type KeyTable struct {
	Keys   []int64 // of each row: the key, that is the lower 58 bits of its mixed key, and behind them 6 bits of a stamp; 0 where a row is free
	Index  []int32 // of the length of Keys
	Counts []int32 // of the length of Keys: for a candidate, how often it was seen; nil for a table without candidates
	First  int     // the first of the regions
	Region int     // rows of a region, at least 1
}

// Agrees reports whether the slices and the number of rows of a region make a table.
func (t KeyTable) Agrees() bool {
	return t.Region > 0 && t.First >= 0 && len(t.Keys)%t.Region == 0 && len(t.Keys)/t.Region <= KeyRegions-t.First && len(t.Index) == len(t.Keys) &&
		(t.Counts == nil || len(t.Counts) == len(t.Keys)) && t.Region <= MostKeyRows/KeyRegions
}

// Room is how many keys a region takes.
func (t KeyTable) Room() int { return keyRegion{keys: t.Keys[:t.Region]}.room() }

// Regions is how many regions are here.
func (t KeyTable) Regions() int { return len(t.Keys) / t.Region }

// A keyRegion is one region of a table.
type keyRegion struct {
	keys   []int64
	index  []int32
	counts []int32
	number int // of the region
}

// region returns a region by its number, false if it is not here.
func (t KeyTable) region(number int) (keyRegion, bool) {
	from := (number - t.First) * t.Region
	if from < 0 || from+t.Region > len(t.Keys) {
		return keyRegion{}, false
	}
	r := keyRegion{keys: t.Keys[from:][:t.Region], index: t.Index[from:][:t.Region], number: number}
	if t.Counts != nil {
		r.counts = t.Counts[from:][:t.Region]
	}
	return r, true
}

// room is how many keys a region takes. Some places of the index stay free, so that what is not there is soon not found.
func (r keyRegion) room() int { return len(r.keys) - len(r.keys)/16 }

// home is the place of the index where the search for a mixed key begins.
func (r keyRegion) home(mixed int64) int {
	high, _ := bits.Mul64(uint64(mixed)<<regionBits, uint64(len(r.index)))
	return int(high)
}

func tagOf(mixed int64) uint32 { return uint32(mixed) << tagShift }

// holds reports whether a row is that of a mixed key of the region. Rows of an index that was not written by this package may be outside of the region.
func (r keyRegion) holds(row uint32, mixed int64) bool {
	return row < uint32(len(r.keys)) && (uint64(r.keys[row])>>stampBits^uint64(mixed))<<stampBits == 0
}

// mixed is the mixed key of a row.
func (r keyRegion) mixed(row int) int64 {
	return int64(uint64(r.number)<<(64-regionBits) | uint64(r.keys[row])>>stampBits)
}

// find returns where in the index a mixed key is, and its entry, or the free place where it would be and 0. It returns -1 if the index is full of others.
func (r keyRegion) find(mixed int64) (at int, entry uint32) {
	at = r.home(mixed)
	for range r.index {
		e := uint32(r.index[at])
		if e == 0 || (e^tagOf(mixed))>>tagShift == 0 && r.holds(e&entryRow-1, mixed) {
			return at, e
		}
		if at++; at == len(r.index) {
			at = 0
		}
	}
	return -1, 0
}

// Find returns the row of a mixed key, -1 if it has none.
func (t KeyTable) Find(mixed int64) int {
	number := RegionOf(mixed)
	r, ok := t.region(number)
	if !ok || mixed == 0 {
		return -1
	}
	if _, e := r.find(mixed); e != 0 && e&isCandidate == 0 {
		return (number-t.First)*t.Region + int(e&entryRow) - 1
	}
	return -1
}

// FindRows finds the rows of mixed keys, -1 for those that have none. It is faster than Find for one after the other, because most keys are in no cache.
func (t KeyTable) FindRows(rows, mixed []int64) {
	for len(mixed) > 0 {
		n := min(rowsAhead, len(mixed))
		for missing := t.findAll(rows[:n], mixed[:n]); missing != 0; missing &= missing - 1 {
			rows[bits.TrailingZeros64(missing)] = -1
		}
		rows, mixed = rows[n:], mixed[n:]
	}
}

// findAll finds the rows of at most rowsAhead mixed keys, 0 for those that have none, and returns which these are, by bits. First it asks memory for all entries of
// the index, then for all keys, so that it does not wait for one after the other.
func (t KeyTable) findAll(rows, mixed []int64) (missing uint64) {
	var places [rowsAhead]int
	var entries [rowsAhead]uint32
	for i, key := range mixed {
		places[i] = 0
		if from := (RegionOf(key) - t.First) * t.Region; from >= 0 && from < len(t.Index) {
			high, _ := bits.Mul64(uint64(key)<<regionBits, uint64(t.Region))
			places[i] = from + int(high)
		}
	}
	touchEntries(t.Index, places[:len(mixed)])
	for i, key := range mixed {
		entries[i] = 0
		from := (RegionOf(key) - t.First) * t.Region
		if key == 0 || from < 0 || from+t.Region > len(t.Keys) {
			continue
		}
		index, tag, at := t.Index[from:][:t.Region], tagOf(key), places[i]-from
		for range index {
			e := uint32(index[at])
			if e == 0 || (e^tag)>>tagShift == 0 {
				entries[i] = e
				break
			}
			if at++; at == len(index) {
				at = 0
			}
		}
	}
	for i, key := range mixed {
		row := -1
		if e := entries[i]; e != 0 {
			from, at := (RegionOf(key)-t.First)*t.Region, e&entryRow-1
			switch r := (keyRegion{keys: t.Keys[from:][:t.Region]}); {
			case !r.holds(at, key):
				row = t.Find(key)
			case e&isCandidate == 0:
				row = from + int(at)
			}
		}
		if rows[i] = int64(row); row < 0 {
			rows[i] = 0
			missing |= 1 << i
		}
	}
	return missing
}

// touchEntries reads entries of an index, as touch reads rows.
//
//go:noinline
func touchEntries(index []int32, places []int) (sum int32) {
	for _, at := range places {
		sum += index[at]
	}
	return sum
}

// used returns how many rows of a region are in use, and how many candidates it has.
func (r keyRegion) used() (rows, candidates int) {
	n := len(r.keys)
	rows = sort.Search(n, func(i int) bool { return r.keys[i] == 0 || r.counts != nil && r.counts[i] != 0 })
	if r.counts != nil {
		candidates = n - rows - sort.Search(n-rows, func(i int) bool { return r.keys[rows+i] != 0 })
	}
	return rows, candidates
}

// UsedOf returns how many rows of a region are in use, which are its first ones; 0 if it is not here.
func (t KeyTable) UsedOf(region int) int {
	r, ok := t.region(region)
	if !ok {
		return 0
	}
	rows, _ := r.used()
	return rows
}

// Used returns how many rows are in use, and how many keys are candidates. It reads a few keys of each region.
func (t KeyTable) Used() (rows, candidates int) {
	for number := t.First; number < t.First+t.Regions(); number++ {
		r, _ := t.region(number)
		used, counted := r.used()
		rows, candidates = rows+used, candidates+counted
	}
	return rows, candidates
}

// A KeyWriter changes a table. It is made anew for each run of an op. It works fastest on keys of one region after those of another.
type KeyWriter struct {
	KeyTable
	Stamp int64 // that seen keys get, from 1 to Stamps

	// KeyChanges, IndexChanges and CountChanges are told each place of Keys, Index and Counts before it changes. Nil: nobody is.
	KeyChanges, IndexChanges, CountChanges func(at int)

	region           keyRegion // where it works
	rows, candidates int       // in it
}

// enter begins to work on a region.
func (w *KeyWriter) enter(number int) bool {
	if w.region.keys != nil && w.region.number == number {
		return true
	}
	r, ok := w.KeyTable.region(number)
	if ok {
		w.region = r
		w.rows, w.candidates = r.used()
	}
	return ok
}

// first is the row of the table with which the region begins.
func (w *KeyWriter) first() int { return (w.region.number - w.First) * w.Region }

// setKey changes a key of the region.
func (w *KeyWriter) setKey(row int, key int64) {
	if w.KeyChanges != nil {
		w.KeyChanges(w.first() + row)
	}
	w.region.keys[row] = key
}

// setEntry changes an entry of the region's index.
func (w *KeyWriter) setEntry(at int, entry uint32) {
	if w.IndexChanges != nil {
		w.IndexChanges(w.first() + at)
	}
	w.region.index[at] = int32(entry)
}

// setCount changes a count of the region.
func (w *KeyWriter) setCount(row int, count int32) {
	if w.CountChanges != nil {
		w.CountChanges(w.first() + row)
	}
	w.region.counts[row] = count
}

// put gives a row of the region a mixed key.
func (w *KeyWriter) put(row int, mixed int64) { w.setKey(row, mixed<<stampBits|w.Stamp) }

// See stamps a mixed key. It returns its row, or -1 and how often it was counted as a candidate.
func (w *KeyWriter) See(mixed int64) (row int, count int64) {
	r, ok := w.KeyTable.region(RegionOf(mixed))
	if !ok || mixed == 0 {
		return -1, 0
	}
	_, e := r.find(mixed)
	if e == 0 {
		return -1, 0
	}
	at := int(e&entryRow) - 1
	if w.KeyChanges != nil {
		w.KeyChanges((r.number-w.First)*w.Region + at)
	}
	r.keys[at] = mixed<<stampBits | w.Stamp
	if e&isCandidate == 0 {
		return (r.number-w.First)*w.Region + at, 0
	}
	if r.counts != nil {
		count = int64(r.counts[at])
	}
	return -1, count
}

// Insert returns the row of a mixed key, and gives it one if it has none. The row is -1 if the region is full or not here.
func (w *KeyWriter) Insert(mixed int64) (row int, added bool) {
	r, ok := w.KeyTable.region(RegionOf(mixed))
	if !ok || mixed == 0 {
		return -1, false
	}
	at, e := r.find(mixed)
	if e != 0 && e&isCandidate == 0 {
		return (r.number-w.First)*w.Region + int(e&entryRow) - 1, false
	}
	w.enter(r.number) // which looks for the end of its rows
	switch {
	case e != 0 && w.candidates > 0:
		w.dropCandidate(int(e&entryRow) - 1)
	case e != 0 || at < 0 || w.rows+w.candidates >= w.region.room():
		return -1, false
	}
	row = w.rows
	w.rows++
	w.put(row, mixed)
	w.setEntry(at, uint32(row+1)|tagOf(mixed))
	return w.first() + row, true
}

// Count counts a mixed key that has no row, which makes it a candidate, and stamps it. It reports false if the region is full or not here.
func (w *KeyWriter) Count(mixed int64) bool {
	if mixed == 0 || w.Counts == nil || !w.enter(RegionOf(mixed)) {
		return false
	}
	at, e := w.region.find(mixed)
	if e != 0 && e&isCandidate == 0 {
		return true
	}
	row := int(e&entryRow) - 1
	if e == 0 {
		if at < 0 || w.rows+w.candidates >= w.region.room() {
			return false
		}
		w.candidates++
		row = len(w.region.keys) - w.candidates
		w.setCount(row, 0)
		w.setEntry(at, uint32(row+1)|tagOf(mixed)|isCandidate)
	}
	w.put(row, mixed)
	w.setCount(row, w.region.counts[row]+min(1, math.MaxInt32-w.region.counts[row]))
	return true
}

// dropCandidate frees the row of a candidate. Its entry of the index stays.
func (w *KeyWriter) dropCandidate(row int) {
	last := len(w.region.keys) - w.candidates
	w.moveKey(last, row)
	w.setCount(row, w.region.counts[last])
	w.setCount(last, 0)
	w.candidates--
}

// moveKey moves the key of a row to another one, and frees its own.
func (w *KeyWriter) moveKey(from, to int) {
	r := w.region
	if from != to {
		if at, e := r.find(r.mixed(from)); e != 0 {
			w.setEntry(at, e&^entryRow|uint32(to+1))
		}
		w.setKey(to, r.keys[from])
	}
	w.setKey(from, 0)
}

// forget takes a mixed key from the index, and moves entries to where searches find them.
func (w *KeyWriter) forget(mixed int64) {
	r := w.region
	hole, e := r.find(mixed)
	if e == 0 {
		return
	}
	n, at := len(r.index), hole
	for range n - 1 {
		if at++; at == n {
			at = 0
		}
		e := uint32(r.index[at])
		if e == 0 {
			break
		}
		row := int(e&entryRow) - 1
		if row < 0 || row >= len(r.keys) {
			continue
		}
		home := r.home(r.mixed(row))
		if between := hole < home && home <= at || at < hole && (hole < home || home <= at); !between {
			w.setEntry(hole, e)
			hole = at
		}
	}
	w.setEntry(hole, 0)
}

// age is how many time spans ago the key of a row was seen.
func (w *KeyWriter) age(row int) int64 {
	return (w.Stamp - w.region.keys[row]&Stamps + Stamps) % Stamps
}

// Full reports whether a region has more keys than Keep.
func (w *KeyWriter) Full(number int) bool {
	if w.Counts == nil { // then rows say it, with one look
		r, ok := w.KeyTable.region(number)
		keep := w.Keep()
		return ok && keep < len(r.keys) && r.keys[keep] != 0
	}
	return w.enter(number) && w.rows+w.candidates > w.Keep()
}

// Keep is how many keys stay in a region whose longest unseen keys are evicted when there are more.
func (w *KeyWriter) Keep() int { return w.Region - max(w.Region/8, min(1, w.Region-1)) }

// Evict takes keys from a region: those of at least an age, and, if more than keep are left, those that were not seen for the longest time. Among keys of one age
// it takes candidates first, and then later rows. For each row in use that goes, move gets the row of the table that takes its place, which is then free, and may be
// the row itself.
func (w *KeyWriter) Evict(number int, age int64, keep int, move func(from, to int)) {
	if !w.enter(number) {
		return
	}
	limit, some := w.limit(age, keep)
	r := w.region
	goes := func(row int) bool {
		switch age := w.age(row); {
		case age > limit:
			return true
		case age == limit && some > 0:
			some--
			return true
		case age > oldest:
			w.setKey(row, r.keys[row]&^Stamps|((w.Stamp-1-oldest+Stamps)%Stamps+1))
		}
		return false
	}
	for row := len(r.keys) - w.candidates; row < len(r.keys); row++ {
		if goes(row) {
			w.forget(r.mixed(row))
			w.dropCandidate(row)
		}
	}
	for row := w.rows - 1; row >= 0; row-- {
		if goes(row) {
			w.forget(r.mixed(row))
			w.rows--
			w.moveKey(w.rows, row)
			move(w.first()+w.rows, w.first()+row)
		}
	}
}

// limit returns the age above which all keys go, and how many of this age go.
func (w *KeyWriter) limit(age int64, keep int) (limit int64, some int) {
	more := w.rows + w.candidates - keep
	if more <= 0 {
		return age - 1, 0
	}
	var ages [Stamps]int
	for row := range w.rows {
		ages[w.age(row)]++
	}
	for row := len(w.region.keys) - w.candidates; row < len(w.region.keys); row++ {
		ages[w.age(row)]++
	}
	for old := int64(Stamps - 1); old >= 0; old-- {
		if old < age && more <= ages[old] {
			return old, max(more, 0)
		}
		more -= ages[old]
	}
	return -1, 0
}
