package schema

import (
	"context"
	"io"

	"github.com/edl-go/edl/dataset/internal/ordered"
)

// blockRows is how many rows a worker encodes at once.
const blockRows = 256

// A block is rows on their way to records.
type block struct {
	encoder *Encoder
	split   *splitter
	rows    []Row
	records [][]byte
	test    []bool
	err     error // after records
}

// Convert writes a record for each row of the tables, in their order, to train or test as the schema splits them. Workers of the given number encode; memory is
// bounded by the rows that they have in hand. Records before one that fails are written.
func Convert(ctx context.Context, s *Schema, tables []*Table, workers int, train, test func(record []byte) error) error {
	return ordered.Run(ctx, "table", workers, func(put func(*block) error) error {
		for _, t := range tables {
			if err := readBlocks(s, t, put); err != nil {
				return err
			}
		}
		return nil
	}, (*block).encode, func(b *block) error {
		for i, record := range b.records {
			write := train
			if b.test[i] {
				write = test
			}
			if err := write(record); err != nil {
				return err
			}
		}
		return b.err
	})
}

// readBlocks reads a table.
func readBlocks(s *Schema, t *Table, put func(*block) error) error {
	if t.more != nil { // columns may come in any row
		t.more(s.names())
	}
	encoder, err := NewEncoder(s, t.Columns(), false)
	if err != nil {
		return t.placed(err)
	}
	for end := false; !end; {
		split, err := splitterOf(s, t.Columns()) // of its own, since it has a hash in hand
		if err != nil {
			return t.placed(err)
		}
		b := &block{encoder: encoder, split: split, rows: make([]Row, 0, blockRows)}
		var failed error
		for len(b.rows) < blockRows {
			row, err := t.Next()
			if err != nil {
				if end = err == io.EOF; !end {
					failed = err
				}
				break
			}
			row.table = t
			b.rows = append(b.rows, row)
		}
		if b.err = failed; failed != nil {
			end = true
		}
		if err := put(b); err != nil {
			return err
		}
		if failed != nil {
			return nil // who writes tells
		}
	}
	return nil
}

// encode makes the records of a block, up to the first row that is wrong.
func (b *block) encode() {
	builder := b.encoder.builder()
	b.test = make([]bool, 0, len(b.rows))
	var all []byte
	ends := make([]int, 0, len(b.rows))
	for _, row := range b.rows {
		test, err := b.split.test(row)
		if err == nil {
			all, err = builder.record(b.encoder, all, row)
		}
		if err != nil {
			b.err = row.table.placed(err)
			break
		}
		b.test, ends = append(b.test, test), append(ends, len(all))
	}
	from := 0
	for _, end := range ends {
		b.records = append(b.records, all[from:end])
		from = end
	}
	b.rows = nil
}
