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

// feedOfRows returns what the rows of a table feed a model by the schema beside it. It is nil if the model has none, or if the file is no table of its columns but, as
// without a schema, one of variables.
func feedOfRows(ctx context.Context, model, path string, p *program.Program) (executor.Feed, error) {
	from := schemaIn(model)
	if from == "" || strings.Contains(path, "=") || !schema.IsTable(path) {
		return nil, nil
	}
	s, err := readSchema(from)
	if err != nil {
		return nil, err
	}
	tables, err := openTables([]string{path})
	if err != nil {
		return nil, nil // numbers without names; what is wrong with other files, whoever reads them says
	}
	defer tables.close()
	columns := tables[0].Columns()
	named := func(name string) bool { return slices.Contains(columns, name) }
	if slices.ContainsFunc(p.Feeds(), named) || !slices.ContainsFunc(s.Columns, func(c schema.Column) bool { return named(c.Name) }) {
		return nil, nil
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
