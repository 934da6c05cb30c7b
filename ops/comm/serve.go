package comm

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

const serveOp = "listen_and_serv"

func init() {
	ops.Register(ops.Def{
		Type:  serveOp,
		Class: ops.Serve,
		Doc: "Serves the variables of block 0 until every trainer has completed. A round merges the contributions of all trainers and then runs " +
			"the blocks: each of prepare_blocks, global_block, the learning-rate block, each of optimize_blocks.",
		Inputs: []ops.Slot{{Name: "X", Doc: "ignored; Fluid lists what is served", Duplicable: true, Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "endpoint", Kind: "", Doc: "logical address of this pserver, such as pserver:0"},
			{Name: "pserver_id", Kind: int32(0), Doc: "index of this pserver, the number in endpoint"},
			{Name: "sync_mode", Default: true, Doc: "merge the contributions of all trainers in rounds; else apply each by itself"},
			{Name: "prepare_blocks", Default: []program.BlockIndex{},
				Doc: "blocks that compute this pserver's part of what all pservers exchange; sync_mode only"},
			{Name: "global_block", Default: int32(NoBlock), Doc: "block that exchanges and computes what all updates need; -1 for none; sync_mode only"},
			{Name: "lr_decay_block_id", Default: int32(NoBlock), Doc: "block of the learning-rate schedule; -1 for none"},
			{Name: "optimize_blocks", Kind: []program.BlockIndex{}, Doc: "blocks that update one slice of a parameter each"},
			{Name: "grad_names", Default: []string{}, Doc: "variables that trainers send gradients to"},
			{Name: "grad_block_ids", Default: []int32{}, Doc: "the optimize block of each of grad_names"},
			{Name: "grad_merge", Default: []int32{}, Doc: "how contributions to each of grad_names become one: 1 mean weighted by rows, 2 sum, 3 the first"},
			{Name: "state_names", Default: []string{}, Doc: "variables that the forward pass of trainers updates and that live here"},
			{Name: "state_merge", Default: []int32{}, Doc: "how each of state_names merges: 1 mean weighted by rows, 2 sum of the changes, 3 the first"},
			{Name: "slice_names", Default: []string{}, Doc: "variables that live here from round to round: what a checkpoint holds"},
			{Name: "slice_origins", Default: []string{}, Doc: "the variable of the user's program that each of slice_names is, or is rows of"},
			{Name: "slice_first_rows", Default: []int64{}, Doc: "first row of each of slice_names in its origin"},
			{Name: "slice_rows", Default: []int64{}, Doc: "rows of each of slice_names; 1 for rank 0"},
			{Name: "slice_total_rows", Default: []int64{}, Doc: "rows of the origin of each of slice_names"},
			{Name: "grad_to_block_id", Default: []string{},
				Doc: "gradient:block as Fluid writes it, for tools that draw programs; never read here, since a name may hold a colon"},
		},
		Infer: func(s *ops.Shapes) error {
			_, err := serviceOf(s)
			return err
		},
		Bind: bindServe,
	})
}

func bindServe(b *ops.Binding) (ops.Kernel, error) {
	server, err := server(b)
	if err != nil {
		return nil, err
	}
	if b.Env.Blocks == nil {
		return nil, needsCluster("nothing that runs the blocks of the program")
	}
	if _, err := serviceOf(b); err != nil {
		return nil, err
	}
	op, blocks := b.Op(), b.Env.Blocks
	return func(ctx context.Context) error { return server.Serve(ctx, op, blocks) }, nil
}
