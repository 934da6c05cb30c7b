package edlcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/spf13/cobra"
)

func newCheckpoint(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "List, check and export the checkpoints of jobs",
		Long: `A job that runs with --checkpoint STORE saves its state there while it trains. STORE is a folder, or a URL such as
s3://bucket/folder. One checkpoint of it is STORE@STEPS, STORE@NAME or its path STORE/NAME, or STORE@RUN, the last one of a run or a job. STORE alone is the last one of the
last run: where several runs have checkpoints there, and none goes on with another, say which. To go on from one, use
"edl run PROGRAM --remote --resume STORE[@STEPS]".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckpointList(c), newCheckpointShow(c), newCheckpointVerify(c), newCheckpointDiff(c), newCheckpointExport(c), newCheckpointPrune(c))
	return cmd
}

// withStore opens a store for one command.
func withStore(ctx context.Context, where string, do func(s *checkpoint.Store) error) error {
	s, err := checkpoint.Open(ctx, where)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// withCheckpoint finds a checkpoint for one command.
func withCheckpoint(ctx context.Context, address string, do func(k *checkpoint.Checkpoint) error) error {
	k, err := checkpoint.Find(ctx, address)
	if err != nil {
		return err
	}
	defer k.Close()
	return do(k)
}

// A checkpointRow is a checkpoint in a list. Its fields are those of the JSON form.
type checkpointRow struct {
	Name     string    `json:"name"`
	Job      string    `json:"job,omitempty"`
	Steps    uint64    `json:"steps"`
	Pass     int32     `json:"pass"`
	Batch    uint64    `json:"batch"`
	Bytes    int64     `json:"bytes"`
	Shards   int       `json:"shards"`
	Written  int64     `json:"written"`         // bytes of its own; the others are those of its bases
	Bases    []string  `json:"bases,omitempty"` // earlier checkpoints that it has shards of
	Created  time.Time `json:"created"`
	Complete bool      `json:"complete"`
	Error    string    `json:"error,omitempty"` // why its manifest cannot be used
}

func rowOfCheckpoint(k *checkpoint.Checkpoint) checkpointRow {
	m := k.Manifest
	r := checkpointRow{Name: k.Name, Job: m.Job, Steps: m.Progress.GetSteps(), Pass: m.Progress.GetPass(), Batch: m.Progress.GetBatch(), Shards: len(m.Shards),
		Created: time.UnixMilli(m.CreatedMs).UTC(), Complete: true, Bases: checkpoint.BasesOf(m)}
	for _, s := range m.Shards {
		if r.Bytes += s.Bytes; s.Checkpoint == "" {
			r.Written += s.Bytes
		}
	}
	return r
}

func newCheckpointList(c *console) *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   "list STORE",
		Short: "List the checkpoints in a folder or bucket",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd.Context(), args[0], func(s *checkpoint.Store) error { return listCheckpoints(cmd.Context(), c, s, output.value) })
		},
	}
	output = outputFlag(cmd)
	return cmd
}

func listCheckpoints(ctx context.Context, c *console, s *checkpoint.Store, output string) error {
	list, err := s.List(ctx)
	if err == nil && len(list) == 0 {
		err = noCheckpoints(s)
	}
	if err != nil {
		return err
	}
	rows := []checkpointRow{}
	for _, e := range list {
		if !e.Complete {
			rows = append(rows, checkpointRow{Name: e.Name, Steps: e.Steps})
			continue
		}
		k, err := s.Read(ctx, e.Name)
		switch {
		case errors.Is(err, fault.NotFound): // its job has just removed it
		case errors.Is(err, fault.Corrupt) || errors.Is(err, fault.TooLarge) || errors.Is(err, fault.Unsupported):
			rows = append(rows, checkpointRow{Name: e.Name, Steps: e.Steps, Error: err.Error()})
		case err != nil:
			return err
		default:
			rows = append(rows, rowOfCheckpoint(k))
		}
	}
	if output == "json" {
		return writeJSON(c.out, rows)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STEPS\tJOB\tPASS\tBYTES\tCREATED\tNAME")
	for _, r := range rows {
		switch {
		case r.Error != "":
			fmt.Fprintf(t, "%d\t\t\t\tdamaged\t%s\n", r.Steps, r.Name)
		case r.Complete:
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%s\t%s\n", r.Steps, r.Job, r.Pass, r.Bytes, r.Created.Format(time.RFC3339), r.Name)
		default:
			fmt.Fprintf(t, "%d\t\t\t\tincomplete\t%s\n", r.Steps, r.Name)
		}
	}
	return t.Flush()
}

// noCheckpoints is the error of a store without any, whose name is probably wrong.
func noCheckpoints(s *checkpoint.Store) error {
	return fault.E(fault.NotFound, fault.At(s.String()), fault.Got("no checkpoint"), fault.Want("a folder or bucket that a job has written checkpoints to"))
}

func newCheckpointShow(c *console) *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   "show STORE[@STEPS|@NAME]",
		Short: "Show what a checkpoint has",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCheckpoint(cmd.Context(), args[0], func(k *checkpoint.Checkpoint) error { return showCheckpoint(c, k, output.value) })
		},
	}
	output = outputFlag(cmd)
	return cmd
}

// A checkpointVariable is a variable of a checkpoint. Its fields are those of the JSON form.
type checkpointVariable struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	Dims   []int64 `json:"dims"`
	Pieces int     `json:"pieces"`
}

func showCheckpoint(c *console, k *checkpoint.Checkpoint, output string) error {
	row := rowOfCheckpoint(k)
	pieces := map[string]int{}
	for _, s := range k.Manifest.Shards {
		for _, p := range s.Pieces {
			pieces[p.Variable]++
		}
	}
	var variables []checkpointVariable
	for _, name := range slices.Sorted(maps.Keys(pieces)) {
		dtype, dims, _ := k.Describe(name)
		variables = append(variables, checkpointVariable{name, dtype.String(), dims, pieces[name]})
	}
	if output == "json" {
		return writeJSON(c.out, struct {
			checkpointRow
			Variables []checkpointVariable `json:"variables"`
		}{row, variables})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "checkpoint\t%s\njob\t%s\nsteps\t%d\npass\t%d, after %d batches\nbytes\t%d in %d shards\ncreated\t%s\n\n", row.Name, row.Job, row.Steps, row.Pass,
		row.Batch, row.Bytes, row.Shards, row.Created.Format(time.RFC3339))
	fmt.Fprintln(t, "VARIABLE\tTYPE\tDIMS\tPIECES")
	for _, v := range variables {
		fmt.Fprintf(t, "%s\t%s\t%v\t%d\n", v.Name, v.Type, v.Dims, v.Pieces)
	}
	return t.Flush()
}

func newCheckpointVerify(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "verify STORE[@STEPS|@NAME]",
		Short: "Read a checkpoint whole, and compare its lengths and sums",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCheckpoint(cmd.Context(), args[0], func(k *checkpoint.Checkpoint) error {
				if err := k.Verify(cmd.Context()); err != nil {
					return err
				}
				r := rowOfCheckpoint(k)
				_, err := fmt.Fprintf(c.out, "%s: ok, %d steps, %d bytes in %d shards\n", r.Name, r.Steps, r.Bytes, r.Shards)
				return err
			})
		},
	}
}

func newCheckpointExport(c *console) *cobra.Command {
	var dir string
	var overwrite bool
	cmd := &cobra.Command{
		Use:     "export STORE[@STEPS|@NAME] -o DIR",
		Short:   "Write a checkpoint as a directory of variables, for --params",
		Example: "  edl checkpoint export ckpt@2000 -o model && edl run program.pb --params model --data train='data/train-*'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return fault.E(fault.InvalidArgument, fault.At("-o"), fault.Got("no directory"), fault.Want("-o DIR"))
			}
			return withCheckpoint(cmd.Context(), args[0], func(k *checkpoint.Checkpoint) error {
				held, err := executor.HoldDirectory(dir)
				if err != nil {
					return err
				}
				defer held.Release()
				if err := export.CheckSave(cmd.Context(), dir, variablesOf(k), overwrite); err != nil {
					return err
				}
				if err := k.Export(cmd.Context(), dir); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.out, "%s: the state after %d steps\n", dir, k.Manifest.Progress.GetSteps())
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&dir, "out", "o", "", "write to the directory `DIR`")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace another model there")
	return cmd
}

// variablesOf is a program with the variables of a checkpoint. A manifest does not tell parameters from what optimizers remember, so all count as parameters.
func variablesOf(k *checkpoint.Checkpoint) *program.Program {
	p := program.New()
	for _, name := range k.Variables() {
		dtype, dims, _ := k.Describe(name)
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, Persistable: true, IsParameter: true})
	}
	return p
}

func newCheckpointPrune(c *console) *cobra.Command {
	keep, age := 2, checkpoint.Dead
	cmd := &cobra.Command{
		Use:   "prune STORE",
		Short: "Remove old checkpoints: of each run of a job all but the newest, and incomplete ones",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 1 {
				return tooFew("--keep", int64(keep))
			}
			if age < 0 {
				return fault.E(fault.InvalidArgument, fault.At("--incomplete"), fault.Got(age.String()), fault.Want("0 or more"))
			}
			return withStore(cmd.Context(), args[0], func(s *checkpoint.Store) error { return pruneCheckpoints(cmd.Context(), c, s, keep, age) })
		},
	}
	cmd.Flags().IntVar(&keep, "keep", keep, "keep the newest `N` of each run")
	cmd.Flags().DurationVar(&age, "incomplete", age, "remove incomplete ones to which nobody has written for so `LONG`")
	return cmd
}

func pruneCheckpoints(ctx context.Context, c *console, s *checkpoint.Store, keep int, age time.Duration) error {
	list, err := s.List(ctx)
	if err == nil && len(list) == 0 {
		err = noCheckpoints(s)
	}
	if err != nil {
		return err
	}
	runs := map[string]bool{}
	for _, e := range list {
		runs[e.Run] = true
	}
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		removed, err := s.Remove(ctx, run, keep)
		for _, name := range removed {
			fmt.Fprintln(c.out, "removed "+name)
		}
		if err != nil {
			return err
		}
	}
	removed, err := s.RemoveIncomplete(ctx, age)
	for _, name := range removed {
		fmt.Fprintln(c.out, "removed "+name+", which was incomplete")
	}
	return err
}
