package pserver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/pages"
	"github.com/edl-go/edl/tensor"
)

// A frozen is a slice as it was at a cut, while updates change it. It is cut into portions of whole units, which are rows of at least 64 bytes together:
//
//	live     the slice has the portion as it was, but for units that are kept
//	kept     an area beside the slice has it, at the same place
//	packed   the area has it, its units in the order in which they were kept
//	passed   nobody reads it any more, and it takes no memory
//
// Before an update changes rows, it has their units kept; an update that may change all has all live portions kept. Who writes a cut reads from the front and says
// how far it is; portions are kept from the back. So a cut takes as much memory as the slice in the worst case, and what the writer has passed is given back.
//
// It is a checkpoint.Source.
type frozen struct {
	byRows bool // it is known which rows an update changes; else it may change all
	large  bool // the slice is in use from end to end
	row    int  // bytes
	unit   int  // bytes
	size   int  // bytes of a portion

	done    atomic.Bool  // no portion is live
	updates atomic.Int32 // that wait for mu

	mu     sync.Mutex
	memory []byte         // the slice
	state  []portionState // by portion
	units  []int          // by portion: how many are kept of a live one
	top    int            // portions from here on are not live
	front  int            // portions before it are passed
	area   *pages.Area    // what is kept; nil: nothing is
	places *pages.Area    // the memory of index; nil: it has none
	index  []uint16       // by unit: the place in its portion where it is kept, and 1; 0: it is not
	lost   error          // why it cannot be read any more
	closed bool
}

type portionState uint8

const (
	live portionState = iota
	kept
	packed
	passed
)

const (
	portionBytes = 2 << 20 // of a portion, unless one row has more
	unitBytes    = 64      // of a unit at least, so a portion has less than 1<<16
	lockedBytes  = 1 << 16 // that are read while updates wait
	largeIndex   = 2 << 20 // from which on an index is worth large pages
)

// freezeSlice returns a slice of so many rows as it is now, in memory, in portions of so many bytes, or more. byRows says that updates tell the rows that they change.
func freezeSlice(memory []byte, rows int64, byRows bool, portion int) *frozen {
	f := &frozen{byRows: byRows, row: len(memory), size: portion, memory: memory}
	if rows > 0 {
		f.row = len(memory) / int(rows)
	}
	f.row = max(1, f.row)
	f.unit = f.row * max(1, (unitBytes+f.row-1)/f.row)
	if byRows {
		f.size = f.unit * max(1, portion/f.unit)
	}
	n := (len(memory) + f.size - 1) / f.size
	f.state, f.units, f.top = make([]portionState, n), make([]int, n), n
	f.done.Store(n == 0)
	return f
}

// bounds returns where a portion begins and ends.
func (f *frozen) bounds(portion int) (from, to int) {
	return portion * f.size, min((portion+1)*f.size, len(f.memory))
}

// unitsOf returns the index of the units of a portion.
func (f *frozen) unitsOf(portion int) []uint16 {
	per := f.size / f.unit
	return f.index[portion*per : min((portion+1)*per, len(f.index))]
}

// room makes the area where there is none. Without memory the cut is lost, and the update goes on.
func (f *frozen) room() bool {
	if f.area != nil {
		return true
	}
	bytes, n := len(f.memory), 0
	if f.byRows {
		n = (len(f.memory) + f.unit - 1) / f.unit
		bytes = n * f.unit // the last unit may have fewer bytes, and any place
	}
	area, err := pages.New(bytes, f.large && !f.byRows)
	if err != nil {
		f.lose(err)
		return false
	}
	if n > 0 {
		places, err := pages.New(2*n, 2*n >= largeIndex)
		if err != nil {
			area.Close()
			f.lose(err)
			return false
		}
		places.Populate() // the first update alone writes to nearly all pages of it
		f.places, f.index = places, unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(places.Bytes()))), n)
	}
	f.area = area
	return true
}

// keepOne keeps the last portion that is live. It reports whether there may be more.
func (f *frozen) keepOne() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.lost != nil || !f.changes() || !f.room() {
		f.done.Store(true)
		return false
	}
	f.top--
	from, to := f.bounds(f.top)
	if f.units[f.top] == 0 {
		tensor.CopyUsed(f.area.Bytes()[from:to], f.memory[from:to])
		f.state[f.top] = kept
		return true
	}
	for unit, at := range f.unitsOf(f.top) {
		if at == 0 {
			f.keepUnit(f.top, unit)
		}
	}
	f.state[f.top] = packed
	return true
}

// lockForUpdate locks, for an update that waits.
func (f *frozen) lockForUpdate() {
	f.updates.Add(1)
	f.mu.Lock()
	f.updates.Add(-1)
}

// unlock unlocks, and lets an update that waits go on at once. Go makes one that waits for a mutex ready to run and goes on with this goroutine, until it blocks
// or has run for 10 ms; who writes a cut locks again before.
func (f *frozen) unlock() {
	f.mu.Unlock()
	if f.updates.Load() > 0 {
		runtime.Gosched()
	}
}

// changes reports whether a portion is live, and if so, makes top the end of the last one. The lock is held.
func (f *frozen) changes() bool {
	for f.top > f.front && f.state[f.top-1] != live {
		f.top--
	}
	return f.top > f.front
}

// keepAll keeps all that is live.
func (f *frozen) keepAll() {
	for !f.done.Load() && f.keepOne() {
	}
}

// keepUnit keeps a unit of a live portion. There is room, and the lock is held.
func (f *frozen) keepUnit(portion, unit int) {
	from, end := f.bounds(portion)
	at := from + unit*f.unit
	copy(f.area.Bytes()[from+f.units[portion]*f.unit:], f.memory[at:min(at+f.unit, end)])
	f.units[portion]++
	f.unitsOf(portion)[unit] = uint16(f.units[portion])
}

// keepRows keeps rows that are about to change. It reports whether all of them are rows of the slice.
func (f *frozen) keepRows(rows []int32) bool {
	f.lockForUpdate()
	defer f.mu.Unlock()
	for _, row := range rows {
		if !f.keepRow(int(row)) {
			return false
		}
	}
	return true
}

// keepRow keeps a row that is about to change. It reports whether that is a row of the slice. The lock is held.
func (f *frozen) keepRow(row int) bool {
	at := row * f.row
	if row < 0 || at >= len(f.memory) {
		return false
	}
	portion := at / f.size
	if f.closed || f.state[portion] != live || !f.room() {
		return true
	}
	if unit := at % f.size / f.unit; f.unitsOf(portion)[unit] == 0 {
		f.keepUnit(portion, unit)
	}
	return true
}

// ReadAt implements io.ReaderAt within the bounds of the slice, of what has not passed.
func (f *frozen) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = f.readSome(p[n:min(len(p), n+lockedBytes)], int(offset)+n)
		n += got
	}
	return n, err
}

// readSome reads what one portion has of to.
func (f *frozen) readSome(to []byte, at int) (int, error) {
	f.mu.Lock()
	defer f.unlock()
	portion := at / f.size
	_, end := f.bounds(portion)
	to = to[:min(len(to), end-at)]
	switch {
	case f.lost != nil:
		return 0, f.lost
	case f.closed || f.state[portion] == passed:
		return 0, fault.E(fault.Internal, fault.Got("a part of a slice that is read again"))
	case f.state[portion] == kept:
		copy(to, f.area.Bytes()[at:])
	case f.units[portion] == 0:
		copy(to, f.memory[at:])
	default:
		f.gather(to, portion, at)
	}
	return len(to), nil
}

// gather reads bytes of a portion of which units are kept. What has changed since may be changing, so it is not even read.
func (f *frozen) gather(to []byte, portion, at int) {
	from, _ := f.bounds(portion)
	index := f.unitsOf(portion)
	for n := 0; n < len(to); {
		unit := (at + n - from) / f.unit
		within := at + n - from - unit*f.unit
		if place := index[unit]; place > 0 {
			begin := from + (int(place)-1)*f.unit
			n += copy(to[n:min(len(to), n+f.unit-within)], f.area.Bytes()[begin+within:])
			continue
		}
		till := unit + 1
		for till < len(index) && index[till] == 0 && from+till*f.unit < at+len(to) {
			till++
		}
		n += copy(to[n:min(len(to), from+till*f.unit-at)], f.memory[at+n:])
	}
}

// Done implements checkpoint.Source: portions that end before an offset have passed.
func (f *frozen) Done(before int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.front < len(f.state) && !f.closed {
		from, to := f.bounds(f.front)
		if int64(to) > before {
			return
		}
		if f.area != nil {
			f.area.Release(from, to)
		}
		f.state[f.front] = passed
		f.front++
	}
	f.done.Store(true)
}

// lose says that the slice cannot be read any more. The lock is held.
func (f *frozen) lose(why error) {
	if f.lost == nil {
		f.lost = why
	}
	f.done.Store(true)
}

// replace says that the slice is about to have other values, which no update gives it.
func (f *frozen) replace() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes() {
		f.lose(fault.E(fault.Superseded, fault.Got("a slice that is replaced while its checkpoint is written"), fault.Want("a later checkpoint")))
	}
}

// close gives its memory back.
func (f *frozen) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done.Store(true)
	if f.closed = true; f.area != nil {
		f.area.Close()
		f.area = nil
	}
	if f.places != nil {
		f.places.Close()
		f.places, f.index = nil, nil
	}
}
