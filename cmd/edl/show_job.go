package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/remote/jobspec"
)

// showJob shows what a job file asks for, defaults filled in.
func showJob(c *console, path, output string) error {
	file, err := jobspec.Load(path)
	if err != nil {
		return err
	}
	spec := file.Spec
	jobspec.Complete(spec)
	if err := jobspec.Check(spec); err != nil {
		return inFile(path, err)
	}
	if output == "json" {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(spec)
		if err != nil {
			return err
		}
		return writeJSON(c.out, struct {
			Program string  `json:"program"`
			Job     rawJSON `json:"job"`
		}{file.Program, b})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("program", file.Program)
	for _, d := range spec.Data {
		row("data", d.Dataset+" = "+strings.Join(d.Globs, ", "))
	}
	row("trainers", fmt.Sprintf("%d to %d", spec.Trainers, spec.TrainersMax))
	row("pservers", spec.Pservers)
	row("mode", modeName(spec))
	row("passes", spec.Passes)
	row("params", spec.Params)
	row("save", spec.Save)
	row("fetch", strings.Join(spec.Fetch, ", "))
	row("deadlines", fmt.Sprintf("start %v, round %v, lease %v", spec.StartDeadline.AsDuration().Round(time.Millisecond),
		spec.RoundDeadline.AsDuration(), spec.Lease.AsDuration()))
	return t.Flush()
}

// rawJSON is text that is JSON already, without the white space that protojson varies at random.
type rawJSON []byte

// MarshalJSON implements json.Marshaler; the encoder that calls it compacts the result.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
