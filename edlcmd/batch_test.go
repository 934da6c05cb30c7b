package edlcmd

import (
	"strconv"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/proto/job"
	"github.com/spf13/cobra"
)

// The noise of dpsgd is for batches of one size: a program that is fed reads its data in batches of that size and of no other.
func TestABatchHasTheSizeThatItsNoiseIsFor(t *testing.T) {
	for size, want := range map[int]fault.Kind{8: fault.OK, 4: fault.InvalidArgument} {
		m, err := fluidtext.Read(`var x float32 [-1,2] feed=[8,2]
var w float32 [2,1] value=random
var rate float32 [1] value=0.1
mul X=x Y=w -> Out=y | x_num_col_dims=1 y_num_col_dims=1
mean X=y -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=y Out@GRAD=loss@GRAD -> X@GRAD=y@GRAD | op_role=1
mul_grad X=x Y=w Out@GRAD=y@GRAD -> Y@GRAD=w@GRAD | x_num_col_dims=1 y_num_col_dims=1 op_role=1
dpsgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | clip=1.0f batch_size=8.0f sigma=0.5f op_role=2
`)
		if err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{}
		var f batchFlag
		f.add(cmd)
		if err := cmd.Flags().Set("batch-size", strconv.Itoa(size)); err != nil {
			t.Fatal(err)
		}
		spec := &job.JobSpec{Data: []*job.DataBinding{{Dataset: "train"}}}
		if err := f.give(cmd.Flags(), spec, m.Program); fault.KindOf(err) != want {
			t.Errorf("batches of %d: %v, want the kind %v", size, err, want)
		}
	}
}
