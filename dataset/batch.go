package dataset

import (
	"fmt"
	"iter"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/tensor"
)

// A Batch holds the rows of one step, or a trainer's part of them.
type Batch struct {
	Tensors    []*tensor.Tensor // one per field: of dims [Rows, field dims...], or Rows sequences with their LoD
	Rows       int              // records of this part; may be 0 if the global batch has fewer rows than parts
	GlobalRows int              // records of the global batch
	RowOffset  int              // the first row of this part in the global batch
	Records    []Range          // the records of this part, in row order
}

// A Range is the records From, From+1, ..., To-1 of a dataset. Records are numbered through all its files, from 0 on.
type Range = ranges.Range

// appendRecord adds a record. It extends the last range if the record follows it.
func appendRecord(list []Range, record int64) []Range {
	if n := len(list); n > 0 && list[n-1].To == record {
		list[n-1].To++
		return list
	}
	return append(list, Range{From: record, To: record + 1})
}

// A Part is one of several equal shares of each global batch: of n rows, rows n*Index/Of up to n*(Index+1)/Of. The zero value is the whole batch.
type Part struct {
	Index, Of int
}

// Rows returns the share of a global batch of n rows.
func (p Part) Rows(n int) (from, to int) {
	if p.Of <= 1 {
		return 0, n
	}
	return int(int64(n) * int64(p.Index) / int64(p.Of)), int(int64(n) * int64(p.Index+1) / int64(p.Of))
}

// BatchOptions says how to make batches.
type BatchOptions struct {
	Fields   []Field // what each record holds, in its order
	Rows     int     // of a global batch; the last one of a pass may have fewer
	DropLast bool    // leave out the last batch of a pass if it has fewer rows
	// Slots is how many batches exist at a time. A batch is valid until the Slots-th batch after it, or until the next iteration. The default is 1.
	// Under Prefetch it must be depth + 2: one in use, depth waiting, one under construction.
	Slots    int
	MaxBytes int64 // of all slots together, also when sequences have made them grow; default 1 GiB
	Paired   []Paired
}

// Paired are two fields of sequences that must have as many rows in each record, because By combines their rows one by one.
type Paired struct {
	A, B             int // in BatchOptions.Fields
	LevelsA, LevelsB int // LoD levels that divide these rows; with fewer than the field has, its inner sequences are the rows. 0 for all
	By               string
}

// rowsOf counts the rows of a sample that levels LoD levels divide.
func (f Field) rowsOf(s *tensor.Stream, levels int) int64 {
	if at := levels - (f.LoDLevel - len(s.LoD)); levels > 0 && levels < f.LoDLevel && at >= 0 && at < len(s.LoD) {
		return int64(len(s.LoD[at]) - 1)
	}
	if len(s.Dims) == 0 {
		return 0
	}
	return s.Dims[0]
}

// Bounds far beyond any cluster, within which rows*parts does not overflow.
const (
	maxParts = 1 << 20
	maxRows  = 1 << 30
)

func (o BatchOptions) check() error {
	if o.Rows < 1 || o.Rows > maxRows || o.Slots < 1 {
		return fault.E(fault.InvalidArgument, fault.At("batch options"), fault.Gotf("%d rows, %d slots", o.Rows, o.Slots),
			fault.Wantf("1 to %d rows, 1 or more slots", maxRows))
	}
	for _, f := range o.Fields {
		if _, ok := tensor.Count(f.Dims); !ok || !f.DType.Computable() || len(f.Dims) >= tensor.MaxRank || f.LoDLevel < 0 || f.LoDLevel > tensor.MaxLoDLevel {
			return fault.E(fault.InvalidArgument, fault.At("batch options"), fault.Gotf("field %s of %v", fault.Quote(f.Name), f),
				fault.Wantf("known dims, type bool, int32, int64, float32 or float64, and at most %d LoD levels", tensor.MaxLoDLevel))
		}
	}
	return nil
}

// check refuses an impossible part.
func (p Part) check() error {
	if p != (Part{}) && (p.Of < 1 || p.Of > maxParts || p.Index < 0 || p.Index >= p.Of) {
		return fault.E(fault.InvalidArgument, fault.At("batches"), fault.Gotf("part %d of %d", p.Index, p.Of),
			fault.Wantf("an index below the number of parts, which is at most %d", maxParts))
	}
	return nil
}

// most returns the largest number of rows of the part in a global batch of n rows.
func (p Part) most(n int) int { return (n + max(1, p.Of) - 1) / max(1, p.Of) }

// fit checks that slots of the given number of rows stay within MaxBytes. Fields of sequences, whose size is not known, must leave that to their columns.
func (o BatchOptions) fit(rows int) error {
	left := o.MaxBytes / int64(o.Slots) / int64(rows) // largest size of a sample
	for _, f := range o.Fields {
		if f.LoDLevel > 0 {
			continue
		}
		n, _ := tensor.Count(f.Dims)
		if size := int64(f.DType.Size()); int64(n) > left/size {
			return fault.E(fault.TooLarge, fault.At("batches"), fault.Var(f.Name), fault.Gotf("%d slots of %d rows of %v", o.Slots, rows, f),
				fault.Wantf("at most %d bytes", o.MaxBytes))
		}
		left -= int64(n) * int64(f.DType.Size())
	}
	return nil
}

// A Batcher decodes records into batches, in memory that it reuses. It serves one iteration at a time.
type Batcher struct {
	options BatchOptions
	part    Part // of the iteration
	most    int  // rows of a slot
	slots   []slot
	next    int // slot of the coming batch
	rows    int // of the global batch under construction
	held    holder
	streams []tensor.Stream
}

// NewBatcher checks the options. The first iteration allocates memory. A later one allocates only if its part has more rows.
func NewBatcher(options BatchOptions) (*Batcher, error) {
	if options.Slots == 0 {
		options.Slots = 1
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = 1 << 30
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	return &Batcher{options: options, slots: make([]slot, options.Slots)}, nil
}

// Batches yields a part of each batch of the records. It decodes and checks the records of the part, and only counts the others. It yields the
// first error, which names file and record, and ends.
func (b *Batcher) Batches(records iter.Seq2[Record, error], part Part) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if err := b.take(part); err != nil {
			yield(nil, err)
			return
		}
		b.begin()
		for record, err := range records {
			if err == nil {
				err = b.add(record)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if b.rows < b.options.Rows {
				continue
			}
			if batch, err := b.finish(); !yield(batch, err) || err != nil {
				return
			}
			b.begin()
		}
		if b.rows > 0 && !b.options.DropLast {
			yield(b.finish())
		}
	}
}

func (b *Batcher) begin() {
	b.rows = 0
	b.held.reset()
	s := &b.slots[b.next]
	s.batch.Records = s.batch.Records[:0]
	for i, f := range b.options.Fields {
		if f.LoDLevel > 0 {
			s.columns[i].reset(f)
		}
	}
}

// add takes the next record of the global batch. Only at the end of the batch is the number of its rows known, and so which rows belong to the
// part. Until then add keeps every record that can belong to it. If the part is the whole batch, add decodes each record at once.
func (b *Batcher) add(record Record) error {
	row := b.rows
	b.rows++
	if b.part.Of <= 1 {
		return b.decode(record, row)
	}
	if _, to := b.part.Rows(b.options.Rows); row < to {
		b.held.add(record)
	}
	return nil
}

// finish completes the batch of the current slot and moves to the next one.
func (b *Batcher) finish() (*Batch, error) {
	from, to := b.part.Rows(b.rows)
	if b.part.Of > 1 {
		for row := from; row < to; row++ {
			if err := b.decode(b.held.get(row), row-from); err != nil {
				return nil, err
			}
		}
	}
	return b.done(b.rows, from, to)
}

// done moves from the current slot, which has rows [from, to) of the global batch, to the next one.
func (b *Batcher) done(rows, from, to int) (*Batch, error) {
	s := &b.slots[b.next]
	b.next = (b.next + 1) % len(b.slots)
	s.batch.GlobalRows, s.batch.RowOffset = rows, from
	return &s.batch, s.setRows(to-from, b.options.Fields)
}

// decode writes the tensors of a record to a row of the current slot. Rows come in ascending order.
func (b *Batcher) decode(record Record, row int) (err error) {
	if b.streams, err = ParseRecord(record.Bytes, b.streams); err != nil {
		return fault.Wrap(fault.KindOf(err), record.place(), err)
	}
	if len(b.streams) != len(b.options.Fields) {
		return b.otherRecord(record)
	}
	for _, p := range b.options.Paired {
		fields := b.options.Fields
		if x, y := fields[p.A].rowsOf(&b.streams[p.A], p.LevelsA), fields[p.B].rowsOf(&b.streams[p.B], p.LevelsB); x != y {
			return fault.E(fault.ShapeMismatch, fault.At(record.place()), fault.Var(fields[p.A].label(p.A)), fault.Gotf("%d rows, and %d of %s", x, y, fields[p.B].label(p.B)),
				fault.Want("as many of both, since "+p.By+" combines them row by row"))
		}
	}
	s := &b.slots[b.next]
	for i, f := range b.options.Fields {
		stream := &b.streams[i]
		if wrong := f.check(stream); wrong != nil {
			wrong.Where, wrong.Variable = record.place(), f.label(i)
			return wrong
		}
		if f.LoDLevel > 0 {
			err = s.columns[i].add(f, stream, b.budget(i))
		} else {
			err = stream.CopyInto(s.whole[i], row*stream.Len())
		}
		if err != nil {
			return fault.E(fault.KindOf(err), fault.At(record.place()), fault.Var(f.label(i)), fault.Cause(err))
		}
	}
	s.batch.Records = appendRecord(s.batch.Records, record.Number)
	return nil
}

// otherRecord is the error of a record with more or fewer tensors than there are fields.
func (b *Batcher) otherRecord(record Record) error {
	const most = 8
	var fields []string
	for i, f := range b.options.Fields[:min(most, len(b.options.Fields))] {
		fields = append(fields, fmt.Sprintf("%s %v", f.label(i), f))
	}
	if more := len(b.options.Fields) - most; more > 0 {
		fields = append(fields, fmt.Sprintf("and %d more", more))
	}
	return fault.E(fault.ShapeMismatch, fault.At(record.place()), fault.Gotf("%d tensors", len(b.streams)),
		fault.Wantf("%d, the fields that are read: %s", len(b.options.Fields), strings.Join(fields, ", ")))
}

// A slot is the memory of one batch.
type slot struct {
	batch   Batch
	whole   []*tensor.Tensor // of Batcher.most rows; Batch.Tensors are their first rows; nil for fields of sequences
	columns []column         // of the fields of sequences
}

// budget returns how many bytes the column of a field may have in the current slot: what the fields of one shape and the other columns leave.
func (b *Batcher) budget(field int) int64 {
	left := b.options.MaxBytes / int64(b.options.Slots)
	s := &b.slots[b.next]
	for i, t := range s.whole {
		if t != nil {
			left -= t.Bytes()
		} else if i != field {
			left -= s.columns[i].bytes()
		}
	}
	return left
}

func (b *Batcher) take(part Part) error {
	if err := part.check(); err != nil {
		return err
	}
	b.part = part
	most := part.most(b.options.Rows)
	if most <= b.most {
		return nil
	}
	if err := b.options.fit(most); err != nil {
		return err
	}
	for i := range b.slots {
		s := &b.slots[i]
		s.whole = s.whole[:0]
		s.columns = make([]column, len(b.options.Fields))
		for _, f := range b.options.Fields {
			if f.LoDLevel > 0 {
				s.whole = append(s.whole, nil)
				continue
			}
			t, err := tensor.New(f.DType, append([]int64{int64(most)}, f.Dims...)...)
			if err != nil {
				return fault.Wrap(fault.KindOf(err), "batches", err)
			}
			s.whole = append(s.whole, t)
		}
		s.batch = Batch{Tensors: append([]*tensor.Tensor(nil), s.whole...), Rows: most}
	}
	b.most = most
	return nil
}

// setRows makes the batch's tensors views of the first rows of the slot.
func (s *slot) setRows(rows int, fields []Field) error {
	same := s.batch.Rows == rows
	s.batch.Rows = rows
	for i, t := range s.whole {
		var view *tensor.Tensor
		var err error
		switch {
		case t == nil:
			view, err = s.columns[i].value(fields[i])
		case same:
			continue
		default:
			view, err = t.Rows(0, int64(rows))
		}
		if err != nil {
			return err
		}
		s.batch.Tensors[i] = view
	}
	return nil
}

// A holder keeps copies of records in blocks of memory that it reuses. Blocks never move, so copies stay where they are until reset.
type holder struct {
	records []Record
	blocks  [][]byte
	used    int // blocks, of which the last has room
}

// Sizes of the blocks of a holder: each is twice as large as the one before.
const (
	firstBlock = 4 << 10
	lastBlock  = 1 << 20
)

func (h *holder) reset() { h.records, h.used = h.records[:0], 0 }

// add keeps a copy of r.
func (h *holder) add(r Record) {
	for h.used == 0 || cap(h.blocks[h.used-1])-len(h.blocks[h.used-1]) < len(r.Bytes) {
		if h.used == len(h.blocks) {
			h.blocks = append(h.blocks, make([]byte, 0, max(len(r.Bytes), min(firstBlock<<min(h.used, 20), lastBlock))))
		}
		h.blocks[h.used] = h.blocks[h.used][:0]
		h.used++
	}
	block := &h.blocks[h.used-1]
	begin := len(*block)
	*block = append(*block, r.Bytes...)
	r.Bytes = (*block)[begin:len(*block):len(*block)]
	h.records = append(h.records, r)
}

func (h *holder) get(i int) Record { return h.records[i] }
