package kernel_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel"
)

// emptyTable is a table without keys.
func emptyTable(region, first, regions int) kernel.KeyTable {
	n := region * regions
	return kernel.KeyTable{Keys: make([]int64, n), Index: make([]int32, n), Counts: make([]int32, n), First: first, Region: region}
}

// A change is what is done to a table.
type change struct {
	do    byte // insert, count, see, or evict
	key   int64
	value byte // of evict: the age, or how many keys it keeps
}

const (
	insert = iota
	count
	see
	evict
	changes
)

// A known key of the model of a table.
type known struct {
	seen  int64 // time span
	count int32 // of a candidate; 0 for a row
}

// drive makes changes, some in each time span, to a whole table and to a part of it. It compares the whole with a map, and the part with the whole. Between time
// spans it looks through all regions, as the contract of stamps wants.
func drive(t testing.TB, region, first, regions int, list []change) {
	whole := &state{TB: t, table: emptyTable(region, 0, kernel.KeyRegions), keys: map[int64]known{}}
	part := &state{TB: t, table: emptyTable(region, first, regions), keys: map[int64]known{}}
	whole.values, part.values = make([]int64, len(whole.table.Keys)), make([]int64, len(part.table.Keys))
	for i, c := range list {
		if i%4 == 0 {
			whole.next()
			part.next()
		}
		whole.change(c)
		if at := kernel.RegionOf(kernel.MixKey(c.key)); at >= first && at < first+regions {
			part.change(c)
		}
	}
	whole.check()
	part.check()
	from := first * region
	same := slices.Equal(part.table.Keys, whole.table.Keys[from:][:regions*region]) && slices.Equal(part.table.Index, whole.table.Index[from:][:regions*region]) &&
		slices.Equal(part.table.Counts, whole.table.Counts[from:][:regions*region])
	if same = same && slices.Equal(part.values, whole.values[from:][:regions*region]); !same {
		t.Fatal("a part of the table is not as in the whole")
	}
}

// A state is a table whose rows have their mixed keys for values, with a map that says what the table must know.
type state struct {
	testing.TB
	table  kernel.KeyTable
	values []int64
	keys   map[int64]known
	now    int64
}

// inRegion returns the keys of a region.
func (s *state) inRegion(number int) (list []int64) {
	for mixed := range s.keys {
		if kernel.RegionOf(mixed) == number {
			list = append(list, mixed)
		}
	}
	return list
}

// write changes the table. Whoever keeps the places that it tells, as they are then, has the table as it was.
func (s *state) write(change func(w *kernel.KeyWriter)) {
	keys, index, counts := slices.Clone(s.table.Keys), slices.Clone(s.table.Index), slices.Clone(s.table.Counts)
	keptKeys, keptIndex, keptCounts := map[int]int64{}, map[int]int32{}, map[int]int32{}
	change(&kernel.KeyWriter{KeyTable: s.table, Stamp: s.now%kernel.Stamps + 1, KeyChanges: keeping(keptKeys, s.table.Keys),
		IndexChanges: keeping(keptIndex, s.table.Index), CountChanges: keeping(keptCounts, s.table.Counts)})
	if !wasAs(keys, s.table.Keys, keptKeys) || !wasAs(index, s.table.Index, keptIndex) || !wasAs(counts, s.table.Counts, keptCounts) {
		s.Fatal("something changes that was not told before")
	}
}

// keeping keeps places of a list before they change.
func keeping[N int32 | int64](kept map[int]N, list []N) func(at int) {
	return func(at int) {
		if _, again := kept[at]; !again {
			kept[at] = list[at]
		}
	}
}

// wasAs reports whether a list was as another one before what is kept has changed.
func wasAs[N int32 | int64](was, list []N, kept map[int]N) bool {
	list = slices.Clone(list)
	for at, value := range kept {
		list[at] = value
	}
	return slices.Equal(was, list)
}

// next begins a time span.
func (s *state) next() {
	s.now++
	s.write(func(w *kernel.KeyWriter) {
		for number := w.First; number < w.First+w.Regions(); number++ {
			w.Evict(number, math.MaxInt64, w.Region, nil)
		}
	})
}

func (s *state) change(c change) { s.write(func(w *kernel.KeyWriter) { s.changeBy(w, c) }) }

func (s *state) changeBy(w *kernel.KeyWriter, c change) {
	mixed := kernel.MixKey(c.key)
	number := kernel.RegionOf(mixed)
	k, is := s.keys[mixed]
	full := !is && len(s.inRegion(number)) >= s.table.Room()
	switch c.do % changes {
	case insert:
		row, added := w.Insert(mixed)
		if fine := mixed != 0 && !full; fine != (row >= 0) || added != (fine && (!is || k.count > 0)) {
			s.Fatalf("key %d gets row %d, added: %v; it is %+v, full: %v", c.key, row, added, k, full)
		}
		if added {
			s.values[row] = mixed
			s.keys[mixed] = known{s.now, 0}
		}
	case count:
		if did := w.Count(mixed); did != (mixed != 0 && !full) {
			s.Fatalf("key %d is counted: %v; full: %v", c.key, did, full)
		} else if did && (!is || k.count > 0) {
			s.keys[mixed] = known{s.now, k.count + 1}
		}
	case see:
		row, count := w.See(mixed)
		if (row >= 0) != (is && k.count == 0) || count != int64(k.count) {
			s.Fatalf("key %d is seen in row %d and was counted %d times; it is %+v", c.key, row, count, k)
		}
		if is {
			s.keys[mixed] = known{s.now, k.count}
		}
	case evict:
		s.evict(w, number, c.value)
	}
}

// evict evicts keys of an age, or all but some. The model does not know which keys of one age go first.
func (s *state) evict(w *kernel.KeyWriter, number int, value byte) {
	age, keep := int64(math.MaxInt64), s.table.Region
	if value%2 == 0 {
		age = int64(value)/2%16 + 1
	} else {
		keep = int(value) / 2 % (s.table.Region + 1)
	}
	w.Evict(number, age, keep, func(from, to int) {
		s.values[to] = s.values[from]
		s.values[from] = 0
	})
	var gone, stay []int64
	limit := int64(kernel.Stamps * 3 / 4)
	for _, mixed := range s.inRegion(number) {
		old := min(s.now-s.keys[mixed].seen, limit)
		if s.knows(mixed) {
			stay = append(stay, old)
		} else {
			gone = append(gone, old)
			delete(s.keys, mixed)
		}
	}
	if value%2 == 0 && (len(gone) > 0 && slices.Min(gone) < age || len(stay) > 0 && slices.Max(stay) >= age) {
		s.Fatalf("ages %v go and %v stay, want those from %d on to go", gone, stay, age)
	}
	if value%2 == 1 && (len(stay) > keep || len(gone) > 0 && len(stay) < keep || len(gone) > 0 && len(stay) > 0 && slices.Min(gone) < slices.Max(stay)) {
		s.Fatalf("ages %v go and %v stay, want %d that were seen last to stay", gone, stay, keep)
	}
}

// knows reports whether the table knows a key, as a row or as a candidate.
func (s *state) knows(mixed int64) bool {
	w := kernel.KeyWriter{KeyTable: kernel.KeyTable{Keys: slices.Clone(s.table.Keys), Index: s.table.Index, Counts: s.table.Counts, First: s.table.First, Region: s.table.Region}, Stamp: 1}
	row, count := w.See(mixed)
	return row >= 0 || count > 0
}

// check compares all that the table knows with the map.
func (s *state) check() {
	rows := 0
	for mixed, k := range s.keys {
		row := s.table.Find(mixed)
		switch {
		case (row >= 0) != (k.count == 0):
			s.Fatalf("%#x has row %d, and is %+v", mixed, row, k)
		case row >= 0 && s.values[row] != mixed:
			s.Fatalf("row %d of %#x has the value of %#x", row, mixed, s.values[row])
		case row >= 0:
			rows++
		}
	}
	if used, _ := s.table.Used(); used != rows {
		s.Fatalf("%d rows are in use, want %d", used, rows)
	}
	places := 0
	for row, key := range s.table.Keys {
		if key != 0 {
			places++
		}
		if row%s.table.Region != 0 && key != 0 && s.table.Counts[row] == 0 && s.table.Keys[row-1] == 0 {
			s.Fatalf("row %d is in use, and the one before it is free", row)
		}
	}
	if entries := len(s.table.Index) - count0(s.table.Index); places != len(s.keys) || entries != places {
		s.Fatalf("%d places and %d entries for %d keys", places, entries, len(s.keys))
	}
	all := slices.Collect(maps.Keys(s.keys))
	for range 70 {
		all = append(all, kernel.MixKey(int64(len(all))<<33))
	}
	out, values := make([]float32, len(all)), make([]float32, len(s.table.Keys))
	for row := range values {
		values[row] = float32(row) + 2
	}
	kernel.LookUpKeys(out, values, s.table, kernel.InitialRow{High: 1}, all, 1)
	found := make([]int64, len(all))
	s.table.FindRows(found, all)
	for i, mixed := range all {
		if row := s.table.Find(mixed); found[i] != int64(row) {
			s.Fatalf("%#x has row %d, and row %d among others", mixed, row, found[i])
		}
		if row := s.table.Find(mixed); row >= 0 && out[i] != values[row] || row < 0 && out[i] > 1 {
			s.Fatalf("%#x reads as %v, and has row %d", mixed, out[i], row)
		}
	}
}

func count0(entries []int32) (n int) {
	for _, e := range entries {
		if e == 0 {
			n++
		}
	}
	return n
}

// A table knows what a map knows, whatever was inserted, counted and evicted. Its rows are dense, and take their values along. A part of it is as in the whole.
func TestKeyTableIsAMap(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		region := rapid.SampledFrom([]int{1, 2, 3, 4, 16, 40}).Draw(r, "rows of a region")
		first := rapid.IntRange(0, kernel.KeyRegions-1).Draw(r, "first region")
		regions := rapid.IntRange(1, kernel.KeyRegions-first).Draw(r, "regions")
		few := rapid.Bool().Draw(r, "keys of one region")
		list := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) change {
			c := change{byte(rapid.IntRange(0, changes-1).Draw(r, "change")), keys().Draw(r, "key"), rapid.Byte().Draw(r, "value")}
			if few && c.key != kernel.NoKey {
				c.key = kernel.KeyOf(int64(first)<<58 | c.key&255<<rapid.SampledFrom([]int{0, 50}).Draw(r, "shift"))
			}
			return c
		}), 0, 300).Draw(r, "changes")
		drive(quiet{t, r}, region, first, regions, list)
	})
}

// quiet lets rapid see failures.
type quiet struct {
	testing.TB
	r *rapid.T
}

func (q quiet) Fatalf(format string, args ...any) { q.r.Fatalf(format, args...) }
func (q quiet) Fatal(args ...any)                 { q.r.Fatal(args...) }

// FuzzKeyTable makes changes that bytes say: three for each, of which the second is a key of few.
func FuzzKeyTable(f *testing.F) {
	f.Add(byte(2), []byte("\x00\x01\x00\x00\x02\x00\x00\x03\x00\x03\x01\x03"))
	f.Add(byte(20), []byte("\x01\x05\x00\x01\x05\x00\x00\x05\x00\x01\x06\x00\x03\x05\x01\x01\x07\x00\x03\x05\x02"))
	f.Add(byte(5), []byte("\x01\x01\x00\x01\x02\x00\x01\x03\x00\x01\x04\x00\x00\x02\x00\x00\x04\x00\x03\x01\x05\x00\x09\x00\x03\x01\x02"))
	f.Fuzz(func(t *testing.T, region byte, data []byte) {
		var list []change
		for ; len(data) >= 3 && len(list) < 500; data = data[3:] {
			list = append(list, change{data[0], kernel.KeyOf(int64(7)<<58 | int64(data[1])<<(data[0]>>4<<2)), data[2]})
		}
		drive(t, int(region)%50+1, 5, 9, list)
	})
}

// An index and counts that say what cannot be give other rows, and no panic.
func TestDamagedKeyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		region := rapid.IntRange(1, 20).Draw(t, "rows of a region")
		table := emptyTable(region, 0, kernel.KeyRegions)
		for row := range region {
			table.Keys[row] = rapid.Int64().Draw(t, "key")
			table.Index[row] = rapid.OneOf(rapid.Int32(), rapid.Int32Range(0, 30)).Draw(t, "entry")
			table.Counts[row] = rapid.SampledFrom([]int32{0, 0, 1, -1, math.MaxInt32}).Draw(t, "count")
		}
		if rapid.Bool().Draw(t, "without counts") {
			table.Counts = nil
		}
		for range 10 {
			w := kernel.KeyWriter{KeyTable: table, Stamp: 1}
			mixed := rapid.Int64Range(1, 1<<58-1).Draw(t, "mixed")
			if rapid.Bool().Draw(t, "known") {
				mixed = int64(uint64(table.Keys[0]) >> 6)
			}
			w.Insert(mixed)
			w.Count(mixed)
			w.See(mixed)
			w.Evict(0, rapid.Int64Range(1, 40).Draw(t, "age"), rapid.IntRange(0, region).Draw(t, "keep"), func(int, int) {})
			kernel.LookUpKeys(make([]float32, 1), make([]float32, len(table.Keys)), table, kernel.InitialRow{}, []int64{mixed}, 1)
		}
	})
}
