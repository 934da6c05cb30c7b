package dataset

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
)

// A Selection is a stream of records that is known by its numbers before its bytes: which records it has, in which order, and who reads them. The
// numbers say which records the rows of a part are, so nobody reads the records of other parts. Streams of files are of this kind, whatever is left out
// of them and however they are shuffled. Others are for Batches: records that exist only as bytes, such as those
// that Go code makes or maps.
type Selection struct {
	Part  Part
	First int64 // number of the first batch that is wanted

	Shuffling

	// Order yields the records of the stream from a position on, some ranges at a time, in their order. The more it yields at a time, the further Select
	// sees ahead. Select uses a slice until it asks for the next. Order is called once.
	Order func(from int64) iter.Seq2[[]Range, error]
	// Read yields the records of a list, in its order. Select never asks for a record twice, and asks in the order of the stream.
	Read func(list []Range) iter.Seq2[Record, error]
}

// Select yields the batches that Batches yields for the shuffled records of the stream, from batch s.First on. It reads and decodes only the records of
// the part. Other records are only counted, so damage in them is not seen.
//
// If a record cannot be read or decoded, RecordOf finds its number in the error.
//
// Without a shuffle, Select reads a batch when all of it is known, and decodes every record in place. With a shuffle it reads the records that it needs of a
// shuffle buffer at once, in the order of the stream, and keeps copies of them. At the end of what Order has yielded so far, the number of rows of the last
// batch may be unknown; Select then keeps each record that may belong to the part.
func (b *Batcher) Select(s Selection) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		r, err := b.selected(s)
		if err != nil {
			yield(nil, err)
			return
		}
		for given, err := range s.Order(r.at) {
			if err != nil {
				yield(nil, err)
				return
			}
			r.known.push(given)
			if !r.deliver(yield) {
				return
			}
		}
		r.ended = true
		r.deliver(yield)
	}
}

// A selection is one iteration of Select.
type selection struct {
	Selection
	to    *Batcher
	rows  int64 // of a global batch
	batch int64 // number of the next batch

	known rangeQueue // the records from position at on that Order has yielded
	at    int64      // of a shuffle: behind the last window
	ended bool       // known is all that is left of the stream

	random  *rand.Rand
	before  int64     // windows to skip; their random numbers must still be drawn
	windows []*window // that batches still need, in order
	free    []*window
	begun   bool // rows of the next batch before row are decoded
	row     int
	order   []int32 // of one window: the places of the records in own
	wanted  []int32 // of one window, for each record in the order of the stream: its place after the shuffle plus 1; 0 if it is not needed
	span    []Range // of one window
	own     []Range // that are read at a time

	// Of the records of own: how many were read, the number of the next, and its range with those behind.
	index  int
	number int64
	rest   []Range
	decode func(record Record, row int) error // of to
}

func (b *Batcher) selected(s Selection) (*selection, error) {
	rows := int64(b.options.Rows)
	if s.First < 0 || s.First > math.MaxInt64/rows {
		return nil, fault.E(fault.InvalidArgument, fault.At("batches"), fault.Gotf("first batch %d", s.First), fault.Wantf("0 to %d", math.MaxInt64/rows))
	}
	if err := b.take(s.Part); err != nil {
		return nil, err
	}
	r := &selection{Selection: s, to: b, decode: b.decode, rows: rows, batch: s.First, at: s.First * rows}
	if s.Buffer >= 2 {
		r.random = rand.New(rand.NewPCG(s.Seed, s.Pass))
		r.before = r.at / int64(s.Buffer)
		r.at = r.before * int64(s.Buffer)
	}
	return r, nil
}

// deliver yields the batches that are complete. It reports whether the iteration goes on.
func (r *selection) deliver(yield func(*Batch, error) bool) bool {
	next := r.inOrder
	if r.random != nil {
		next = r.shuffled
	}
	for {
		batch, err := next()
		if batch == nil && err == nil {
			return true
		}
		if !yield(batch, err) || err != nil {
			return false
		}
		r.batch++
	}
}

// complete reports whether so many rows are a batch.
func (r *selection) complete(rows int64) bool {
	return rows == r.rows || rows > 0 && r.ended && !r.to.options.DropLast
}

// inOrder returns the next batch of a stream that is not shuffled; nil if it is not complete.
func (r *selection) inOrder() (*Batch, error) {
	rows := min(r.rows, r.known.count)
	if !r.complete(rows) {
		return nil, nil
	}
	from, to := r.Part.Rows(int(rows))
	r.known.take(nil, int64(from))
	r.own = r.known.take(r.own[:0], int64(to-from))
	r.known.take(nil, rows-int64(to))
	r.to.begin()
	if err := r.read(r.decode); err != nil {
		return nil, err
	}
	return r.to.done(int(rows), from, to)
}

// read reads the records of r.own. It passes each on with its index. What it keeps between records lies in r: this makes a batch nearly free of allocations.
func (r *selection) read(each func(record Record, index int) error) error {
	if len(r.own) == 0 {
		return nil
	}
	r.index, r.number, r.rest = 0, r.own[0].From, r.own
	for record, err := range r.Read(r.own) {
		if err == nil && (len(r.rest) == 0 || record.Number != r.number) {
			err = fault.E(fault.Internal, fault.At(record.place()), fault.Wantf("record %d of %v", r.number, r.own))
		}
		if err == nil {
			err = each(record, r.index)
		}
		if err != nil {
			return &recordError{r.number, err}
		}
		r.index++
		if r.number++; r.number == r.rest[0].To {
			if r.rest = r.rest[1:]; len(r.rest) > 0 {
				r.number = r.rest[0].From
			}
		}
	}
	if len(r.rest) > 0 {
		return fault.E(fault.Internal, fault.At("batches"), fault.Gotf("%d records", r.index), fault.Wantf("%d, those of %v", ranges.Count(r.own), r.own))
	}
	return nil
}

// A recordError is an error of one record.
type recordError struct {
	number int64
	err    error
}

func (e *recordError) Error() string { return e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }

// RecordOf returns the number of the record that an error of Select is about.
func RecordOf(err error) (number int64, ok bool) {
	var e *recordError
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.number, true
}

// A window is the content of a shuffle buffer: its records at the places that the shuffle gives them, as far as they are needed.
type window struct {
	base  int64   // position of its first record in the shuffled stream
	order []int32 // of each place: which record of the window, in the order of the stream
	index []int32 // of each place: its record in held plus 1, 0 if it is not there
	held  holder
}

func (w *window) end() int64 { return w.base + int64(len(w.order)) }

func (w *window) get(position int64) Record { return w.held.get(int(w.index[position-w.base]) - 1) }

// shuffled returns the next batch of a shuffled stream; nil if it is not complete.
func (r *selection) shuffled() (*Batch, error) {
	start := r.batch * r.rows
	for r.at < start+r.rows {
		// A batch that ends in the next window is decoded so far as it can be, so that one window is in memory and not two.
		if known := min(r.rows, r.at+r.known.count-start); r.complete(known) || r.Part.Of <= 1 && !r.ended {
			if err := r.decodeRows(start, known); err != nil {
				return nil, err
			}
		}
		if filled, err := r.fill(); err != nil {
			return nil, err
		} else if !filled {
			break
		}
	}
	rows := min(r.rows, r.at-start)
	if !r.complete(rows) {
		return nil, nil
	}
	if err := r.decodeRows(start, rows); err != nil {
		return nil, err
	}
	r.begun = false
	from, to := r.Part.Rows(int(rows))
	return r.to.done(int(rows), from, to)
}

// decodeRows decodes what is in windows of the part of a batch of so many rows, and frees the windows before the next batch.
func (r *selection) decodeRows(start, rows int64) error {
	if !r.begun {
		r.to.begin()
		r.begun, r.row = true, 0
	}
	from, to := r.Part.Rows(int(max(0, rows)))
	w := 0
	for row := max(from, r.row); row < int(min(int64(to), r.at-start)); row++ {
		position := start + int64(row)
		for position >= r.windows[w].end() {
			w++
		}
		record := r.windows[w].get(position)
		if err := r.decode(record, row-from); err != nil {
			return &recordError{record.Number, err}
		}
		r.row = row + 1
	}
	for len(r.windows) > 0 && r.windows[0].end() <= start+rows {
		r.free = append(r.free, r.windows[0])
		r.windows = r.windows[:copy(r.windows, r.windows[1:])]
	}
	return nil
}

// fill shuffles and reads the next window. It reports whether there is one.
func (r *selection) fill() (bool, error) {
	n := min(int64(r.Buffer), r.known.count)
	if n == 0 || n < int64(r.Buffer) && !r.ended {
		return false, nil
	}
	for ; r.before > 0; r.before-- {
		r.skip(r.random)
	}
	w := r.newWindow(int(n))
	r.permute(r.random, int(n), func(i, j int) { w.order[i], w.order[j] = w.order[j], w.order[i] })
	r.span = r.known.take(r.span[:0], n)
	r.at += n
	r.windows = append(r.windows, w)
	r.want(w)
	r.list()
	return true, r.read(func(record Record, index int) error {
		w.held.add(record)
		w.index[r.order[index]] = int32(index) + 1
		return nil
	})
}

func (r *selection) newWindow(n int) *window {
	w := &window{}
	if last := len(r.free) - 1; last >= 0 {
		w, r.free = r.free[last], r.free[:last]
	}
	w.base, w.order, w.index = r.at, resized(w.order, n), resized(w.index, n)
	w.held.reset()
	for i := range w.order {
		w.order[i] = int32(i)
	}
	return w
}

// resized returns n zeros, in the memory of list if it is large enough.
func resized(list []int32, n int) []int32 {
	if cap(list) < n {
		return make([]int32, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// want finds out which records of a window are needed.
func (r *selection) want(w *window) {
	r.wanted = resized(r.wanted, len(w.order))
	end := w.end()
	for start := max(r.batch*r.rows, w.base-w.base%r.rows); start < end; start += r.rows {
		from, to := r.needed(min(r.rows, end+r.known.count-start))
		for p := max(start+int64(from), w.base); p < min(start+int64(to), end); p++ {
			place := int32(p - w.base)
			r.wanted[w.order[place]] = place + 1
		}
	}
}

// needed returns the rows that may belong to the part in a batch of which so many rows are known.
func (r *selection) needed(known int64) (from, to int) {
	if r.complete(known) {
		return r.Part.Rows(int(known))
	}
	if r.ended { // it is left out
		return 0, 0
	}
	from, to = r.Part.Rows(int(r.rows))
	if !r.to.options.DropLast { // the stream may end anywhere behind what is known
		from, _ = r.Part.Rows(int(known))
	}
	return from, to
}

// list makes own the wanted records of span, and order their places.
func (r *selection) list() {
	r.own, r.order = r.own[:0], r.order[:0]
	i := 0
	for _, span := range r.span {
		for number := span.From; number < span.To; number++ {
			if place := r.wanted[i]; place > 0 {
				r.own, r.order = appendRecord(r.own, number), append(r.order, place-1)
			}
			i++
		}
	}
}

// A rangeQueue is records in the order of a stream.
type rangeQueue struct {
	list  []Range // none is empty
	head  int     // the first range of list that is not taken
	count int64   // records
}

// push appends the records of a list.
func (q *rangeQueue) push(list []Range) {
	q.list = q.list[:copy(q.list, q.list[q.head:])]
	q.head = 0
	for _, r := range list {
		if n := r.Len(); n > 0 {
			q.list, q.count = append(q.list, r), q.count+n
		}
	}
}

// take removes the first n records, which must exist, and appends them to dst.
func (q *rangeQueue) take(dst []Range, n int64) []Range {
	for q.count -= n; n > 0; {
		first := &q.list[q.head]
		taken := Range{From: first.From, To: min(first.To, first.From+n)}
		if last := len(dst) - 1; last >= 0 && dst[last].To == taken.From {
			dst[last].To = taken.To
		} else {
			dst = append(dst, taken)
		}
		n -= taken.Len()
		if first.From = taken.To; first.Len() == 0 {
			q.head++
		}
	}
	return dst
}
