package merge

import (
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// travelsByRows reports whether contributions to dst are rows of a table (compress.RowsForm), which are merged into rows of the table.
func travelsByRows(dst *tensor.Tensor, how ops.Merge) bool {
	return how != ops.MergeFirst && compress.IsForm(dst)
}

// rowsOf is a share's view, with copies of the numbers: a peer that shares the memory may change them meanwhile.
type rowsOf[N compress.Number] struct {
	numbers []N
	values  []float32
	next    int // of numbers
	weight  float32
}

// rowRooms and keyRooms have row numbers and keys of shares.
var (
	rowRooms = sync.Pool{New: func() any { return new([]int32) }}
	keyRooms = sync.Pool{New: func() any { return new([]int64) }}
)

// A view is compress.RowsOf or KeysOf.
type view[N compress.Number] func(*tensor.Tensor) (compress.SparseForm[N], bool)

// combineRows is combine for rows. The result has each row that a share has, once. A share without a row adds nothing to it, as its zeros would.
func combineRows(dst *tensor.Tensor, shares []Share, how ops.Merge) error {
	if dst.DType() == tensor.Int64 {
		return combineForms(dst, compress.KeysOf, &keyRooms, shares, how)
	}
	return combineForms(dst, compress.RowsOf, &rowRooms, shares, how)
}

func combineForms[N compress.Number](dst *tensor.Tensor, formOf view[N], rooms *sync.Pool, shares []Share, how ops.Merge) error {
	out, ok := formOf(dst)
	if !ok {
		return fault.E(fault.TypeMismatch, fault.Got("contributions of "+dst.String()), fault.Want("float32, float64, or rows of a table"))
	}
	room := rooms.Get().(*[]N)
	defer rooms.Put(room)
	all, err := viewsOf(shares, formOf, how, out.Height(), room)
	if err != nil {
		return err
	}
	n := different(all)
	if n > out.Height() {
		return fault.E(fault.TooLarge, fault.Gotf("%d rows in one round", n), fault.Wantf("at most %d, the rows of the table", out.Height()))
	}
	addRows(out, n, all)
	return nil
}

// viewsOf returns the views of shares in a table of height rows. room is for copies of the numbers.
func viewsOf[N compress.Number](shares []Share, formOf view[N], how ops.Merge, height int, room *[]N) ([]rowsOf[N], error) {
	numbers := (*room)[:0]
	all := make([]rowsOf[N], len(shares))
	for i, s := range shares {
		form, _ := formOf(s.Value)
		theirs, values, err := form.Used()
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, theirs...)
		if err := compress.CheckNumbers(numbers[len(numbers)-len(theirs):], height); err != nil {
			return nil, err
		}
		all[i].values = values
		all[i].next = len(theirs) // how many, until the numbers stand still
	}
	*room = numbers
	for i := range all {
		all[i].numbers, numbers = numbers[:all[i].next], numbers[all[i].next:]
		all[i].next = 0
	}
	weights(shares, how, func(i int, weight float32) { all[i].weight = weight })
	return all, nil
}

// A RowsRoom has the memory of a merge of rows, which grows as needed. The zero value has none.
type RowsRoom struct {
	rows []int32
	keys []int64
}

// Merge is Gradients for rows of a table, in shares with room for any number of rows. The result has room for the rows that it has, and no more. It is valid
// until the next Merge.
func (r *RowsRoom) Merge(shares []Share, how ops.Merge) (*tensor.Tensor, error) {
	if len(shares) > 0 && shares[0].Value.DType() == tensor.Int64 {
		return mergeInto(&r.keys, compress.KeysOf, &keyRooms, shares, how)
	}
	return mergeInto(&r.rows, compress.RowsOf, &rowRooms, shares, how)
}

func mergeInto[N compress.Number](elements *[]N, formOf view[N], rooms *sync.Pool, shares []Share, how ops.Merge) (*tensor.Tensor, error) {
	width := -1
	for _, s := range shares {
		form, ok := formOf(s.Value)
		if !ok || s.Rows <= 0 || width >= 0 && form.Width() != width {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("a share of %d rows and %s", s.Rows, s.Value), fault.Want("rows of one table"))
		}
		width = form.Width()
	}
	if width < 0 {
		return nil, fault.New(fault.InvalidArgument, "a merge of nothing")
	}
	if how == ops.MergeMean {
		shares = weighed(shares)
	}
	room := rooms.Get().(*[]N)
	defer rooms.Put(room)
	all, err := viewsOf(shares, formOf, how, compress.MaxRows, room)
	if err != nil {
		return nil, err
	}
	rows := different(all)
	n := (1 + rows) * (1 + width)
	if n > len(*elements) {
		*elements = make([]N, n+n/4)
	}
	merged, err := tensor.FromSlice((*elements)[:n:n], int64(1+rows), int64(1+width))
	if err != nil {
		return nil, err
	}
	out, _ := formOf(merged)
	addRows(out, rows, all)
	return merged, nil
}

// addRows fills in the sum of shares, which have n different rows.
func addRows[N compress.Number](out compress.SparseForm[N], n int, shares []rowsOf[N]) {
	width := out.Width()
	numbers, values := out.Begin(n)
	if len(shares) == 1 {
		copy(numbers, shares[0].numbers)
		copy(values, shares[0].values)
		return
	}
	for k := range numbers {
		row := lowest(shares)
		sum, first := values[k*width:][:width], true
		for i := range shares {
			s := &shares[i]
			if s.next == len(s.numbers) || s.numbers[s.next] != row {
				continue
			}
			x := s.values[s.next*width:][:width]
			s.next++
			if first {
				kernel.Scale(sum, x, s.weight, 0, true)
			} else {
				kernel.Axpy(sum, x, s.weight)
			}
			first = false
		}
		numbers[k] = row
	}
}

// lowest is the lowest row that is next in a share, as a number without sign. There is one.
func lowest[N compress.Number](shares []rowsOf[N]) N {
	row := N(-1)
	for i := range shares {
		if s := &shares[i]; s.next < len(s.numbers) && uint64(s.numbers[s.next]) < uint64(row) {
			row = s.numbers[s.next]
		}
	}
	return row
}

// different counts the rows that shares have, each once.
func different[N compress.Number](shares []rowsOf[N]) (n int) {
	if len(shares) == 1 {
		return len(shares[0].numbers)
	}
	for {
		row, found := lowest(shares), false
		for i := range shares {
			if s := &shares[i]; s.next < len(s.numbers) && s.numbers[s.next] == row {
				s.next++
				found = true
			}
		}
		if !found {
			break
		}
		n++
	}
	for i := range shares {
		shares[i].next = 0
	}
	return n
}
