package edlcmd

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// feedOfRows returns what the rows of a table feed a model by the schema of the table, the file from. It is nil if there is none, or if the file is no table of its columns but, as
// without a schema, one of variables.
func feedOfRows(ctx context.Context, from, path string, p *program.Program) (executor.Feed, error) {
	if from == "" || strings.Contains(path, "=") || !schema.IsTable(path) {
		return nil, nil
	}
	s, err := schema.Load(from)
	if err != nil {
		return nil, err
	}
	tables, err := openTables([]string{path}, s.Open)
	if err != nil {
		return nil, nil // numbers without names; what is wrong with other files, whoever reads them says
	}
	defer tables.close()
	columns := tables[0].Columns()
	if !areRows(s, columns, p) {
		return nil, nil
	}
	if lacking := slices.DeleteFunc(s.InputColumns(), func(name string) bool { return slices.Contains(columns, name) }); len(lacking) > 0 {
		return nil, fault.E(fault.NotFound, fault.At(path), fault.Gotf("rows of a table without %s", shortList(lacking)),
			fault.Wantf("all columns that %s makes inputs of: %s", from, strings.Join(s.InputColumns(), ", ")), fault.Hint("in the form NAME=FILE a file has the values of one variable"))
	}
	encoder, err := schema.NewEncoder(s, columns, true)
	if err != nil {
		return nil, inFile(path, err)
	}
	var rows []schema.Row
	for {
		row, err := tables[0].Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if rows = append(rows, row); len(rows) > maxHeld {
			return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("more than %d rows", maxHeld), fault.Want("fewer in one run"))
		}
	}
	if len(rows) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Got("no rows"), fault.Want("at least one"))
	}
	tensors, err := encoder.Batch(rows)
	if err != nil {
		return nil, inFile(path, err)
	}
	feed := executor.Feed{}
	for i, f := range encoder.Fields() {
		if slices.Contains(p.Feeds(), f.Name) {
			feed[f.Name] = tensors[i]
		}
	}
	return feed, nil
}

// areRows reports whether a table has rows of the table that a model was trained on, and not the values of variables, as without a schema. A category is a column and an
// input of the same name, so names of inputs alone say nothing. A table with every column is one of rows, and so is one with some of them, unless it names all inputs.
func areRows(s *schema.Schema, columns []string, p *program.Program) bool {
	named := func(name string) bool { return slices.Contains(columns, name) }
	unnamed := func(name string) bool { return !named(name) }
	known := s.InputColumns()
	return !slices.ContainsFunc(known, unnamed) || slices.ContainsFunc(known, named) && slices.ContainsFunc(p.Feeds(), unnamed)
}
