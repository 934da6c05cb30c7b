package edlcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/tensor"
)

// A reservoir keeps lines that are drawn at random: each set of its size is as probable as any other (J. S. Vitter, Random sampling with a reservoir, 1985, algorithm R).
type reservoir struct {
	random *rand.Rand
	most   int
	seen   int
	lines  []drawn
}

type drawn struct {
	at   int
	line string
}

// add offers the next line, which is made only if it is drawn.
func (r *reservoir) add(line func() (string, error)) error {
	at := len(r.lines)
	if r.seen++; at == r.most {
		if at = r.random.IntN(r.seen); at >= r.most {
			return nil
		}
	}
	text, err := line()
	if err != nil {
		return err
	}
	if at == len(r.lines) {
		r.lines = append(r.lines, drawn{})
	}
	r.lines[at] = drawn{r.seen, text}
	return nil
}

func dataSample(ctx context.Context, c *console, files looked, most int, random *rand.Rand) error {
	records, err := files.areRecords()
	if err != nil {
		return err
	}
	r := &reservoir{random: random, most: most}
	if records {
		var names []string
		err = eachRecord(ctx, files.paths, func(path string, tensors []*tensor.Tensor) error {
			if len(names) != len(tensors) {
				names = fieldNames(path, len(tensors))
			}
			return r.add(func() (string, error) { return recordLine(names, tensors) })
		})
	} else {
		err = sampleTables(ctx, files, r)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(r.lines, func(a, b drawn) int { return a.at - b.at })
	for _, d := range r.lines {
		if _, err := fmt.Fprintln(c.out, d.line); err != nil {
			return err
		}
	}
	return nil
}

func sampleTables(ctx context.Context, files looked, r *reservoir) error {
	tables, err := files.tables()
	if err != nil {
		return err
	}
	defer tables.close()
	for _, t := range tables {
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, err := t.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if err := r.add(func() (string, error) { return rowLine(t.Columns(), row) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowLine is a row as one JSON object with its members in the order of the columns.
func rowLine(columns []string, row schema.Row) (string, error) {
	values := make([]any, len(columns))
	for i, cell := range row.Cells {
		switch cell.Kind {
		case schema.Text:
			values[i] = cell.Text
		case schema.List:
			values[i] = cell.List
		}
	}
	return objectLine(columns, values)
}

// recordLine is a record as one JSON object, as "edl data jsonl" reads it: the elements of each field, and those of a sequence in an array however many there are.
func recordLine(names []string, tensors []*tensor.Tensor) (string, error) {
	values := make([]any, len(tensors))
	for i, t := range tensors {
		if values[i] = (jsonElements{t}); t.Len() == 1 && len(t.LoD()) == 0 {
			values[i] = scalarOf(t, 0)
		}
	}
	return objectLine(names, values)
}

func objectLine(names []string, values []any) (string, error) {
	var b strings.Builder
	for i, name := range names {
		b.WriteByte("{,"[min(i, 1)])
		for j, value := range []any{name, values[i]} {
			if j > 0 {
				b.WriteByte(':')
			}
			var text bytes.Buffer
			if err := writeJSON(&text, value); err != nil {
				return "", err
			}
			b.Write(bytes.TrimSpace(text.Bytes()))
		}
	}
	return b.String() + "}", nil
}
