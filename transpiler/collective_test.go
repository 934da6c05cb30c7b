package transpiler_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

var (
	// averaged is the program before fleet changes it.
	averaged = network + strings.ReplaceAll(schedules["constant"]+each(penalties["l2"])+clips["global norm"]+updates["momentum"], "<R>", "2")

	ofGradients = regexp.MustCompile(`(?m)^.*op_role_var=\["(.*?)","(.*?)"\]\n`) // ops that write gradients of parameters
	ofLoss      = regexp.MustCompile(`(?m)^.* -> Out=loss@GRAD .*\n`)
	sums        = func(op string) string {
		return op + " X=${2} -> Out=${2} | ring_id=0 use_calc_stream=false op_role=1\n"
	}
)

const third = "scale X=%s -> Out=%[1]s | scale=0.33333334f bias=0.0f bias_after_scale=true op_role=1\n"

// afterEach writes lines after each op that computes the gradient of a parameter.
func afterEach(text, lines string) string {
	forward, update, _ := strings.Cut(text, "scale X=rate")
	return ofGradients.ReplaceAllString(forward, "${0}"+strings.ReplaceAll(lines, "%[1]s", "${2}")) + "scale X=rate" + update
}

func afterLoss(text, lines string) string { return ofLoss.ReplaceAllString(text, "${0}"+lines) }

// waited puts what lets streams wait before the update.
func waited(text string) string {
	all := "w0@GRAD,b0@GRAD,w1@GRAD,b1@GRAD"
	return strings.Replace(text, "scale X=w0 -> Out=w0.l2", "c_sync_comm_stream X="+all+" -> Out="+all+" | ring_id=0 op_role=1\nscale X=w0 -> Out=w0.l2", 1)
}

// collectives are forms of the program for three trainers.
var collectives = map[string]string{
	"GradAllReduce": waited(afterLoss(afterEach(averaged, "c_sync_calc_stream X=${2} -> Out=${2} | op_role=1\n"+sums("c_allreduce_sum")), fmt.Sprintf(third, "loss@GRAD"))),
	"each scaled":   afterEach(averaged, "scale X=${2} -> Out=${2} | scale=0.33333334f bias=0.0f bias_after_scale=true op_role=1\n"+sums("c_allreduce_sum")),
	"means":         waited(afterEach(averaged, sums("c_allreduce_avg"))),
	"later slots":   afterLoss(afterEach(averaged, "all_reduce x=${2} -> out=${2} | ring_id=0 reduce_type=0 op_role=1\n"), fmt.Sprintf(third, "loss@GRAD")),
	"one buffer": strings.NewReplacer(
		"mean_grad", "coalesce_tensor Input=w1,b1,w0,b0 -> Output=w1@GRAD,b1@GRAD,w0@GRAD,b0@GRAD FusedOutput=fused | copy_data=false use_align=true dtype=5 op_role=1\nmean_grad",
		"scale X=rate", "c_sync_calc_stream X=fused -> Out=fused | op_role=1\nc_allreduce_sum X=fused -> Out=fused | ring_id=0 use_calc_stream=false op_role=1\n"+
			"depend X=w1@GRAD Dep=fused -> Out=w1@GRAD |\nscale X=rate",
	).Replace(afterLoss(averaged, fmt.Sprintf(third, "loss@GRAD"))),
}

// What fleet and Fluid's collective transpiler write for each of several trainers is read as the program before, so it trains by the law.
func TestCollectiveProgramsAreReadAsWholeOnes(t *testing.T) {
	want := read(t, averaged)
	for name, form := range collectives {
		p := read(t, form)
		if !bytes.Equal(encoded(t, p), encoded(t, want)) {
			t.Errorf("%s is read as\n%s\nwant\n%s", name, text(p), text(want))
		}
	}
	if err := checkLaw(t, read(t, collectives["GradAllReduce"]), transpiler.Config{Trainers: 2, PServers: 2, MinBlockSize: 4}, "loss", "w0"); err != nil {
		t.Error(err)
	}
}

// A startup program of such a job gives parameters the same values without the connections, beside its program or in a file of its own. One for another number of trainers contradicts the factor.
func TestCollectiveStartupPrograms(t *testing.T) {
	want := read(t, averaged)
	for ranks, whole := range map[int32]bool{3: true, 2: false} {
		p := read(t, averaged)
		insertSums(t, p)
		connect(t, p.Startup, ranks)
		got, err := fluidtext.Again(p)
		if err != nil {
			t.Fatal(err)
		}
		if is := bytes.Equal(encoded(t, got), encoded(t, want)); is != whole {
			t.Errorf("with %d trainers and the factor 1/3 it is read as a whole program: %v, want %v:\n%s", ranks, is, whole, text(got))
		}
		alone := p.Startup
		if alone, err = fluidtext.Again(alone); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encoded(t, alone), encoded(t, want.Startup)) {
			t.Errorf("the startup program alone is read as\n%s\nwant\n%s", text(alone), text(want.Startup))
		}
	}
}

// Other sums over trainers are none of gradients of a whole program, and stay refused: without the factor, of what else a step computes, of some parameters only, of parameters, and as parts of a model.
func TestOtherCollectiveProgramsAreRefused(t *testing.T) {
	good := collectives["later slots"]
	for name, form := range map[string]string{
		"no factor":             strings.Replace(good, fmt.Sprintf(third, "loss@GRAD"), "", 1),
		"other factor":          strings.Replace(good, "scale=0.33333334f", "scale=0.4f", 1),
		"two factors":           afterEach(good, "scale X=${2} -> Out=${2} | scale=0.33333334f op_role=1\n"),
		"twice":                 afterEach(good, sums("c_allreduce_sum")),
		"one is left out":       strings.Replace(good, "all_reduce x=w0@GRAD -> out=w0@GRAD | ring_id=0 reduce_type=0", "assign X=w0@GRAD -> Out=other |", 1),
		"maximum":               strings.ReplaceAll(good, "reduce_type=0", "reduce_type=1"),
		"of the loss":           strings.Replace(averaged, "fill_constant -> Out=loss@GRAD", "c_allreduce_sum X=loss -> Out=loss | ring_id=0\nfill_constant -> Out=loss@GRAD", 1),
		"of a layer":            strings.Replace(good, "relu X=", "c_allreduce_sum X=fc_0.tmp_1 -> Out=fc_0.tmp_1 | ring_id=1 use_model_parallel=true\nrelu X=", 1),
		"of parameters":         averaged + each("c_allreduce_sum X=<P> -> Out=<P> | ring_id=0 op_role=2\n"),
		"sent":                  good + "send_v2 X=loss ->  | peer=1 ring_id=2\n",
		"a buffer that is read": strings.Replace(collectives["one buffer"], "scale X=rate", "assign X=fused -> Out=copy | op_role=1\nscale X=rate", 1),
	} {
		err := ops.Verify(read(t, form), program.StageLocal)
		if fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "the whole program") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// insertSums changes a program for one of three trainers.
func insertSums(t *testing.T, p *program.Program) {
	b := p.Global()
	scratch := program.New().Global()
	add := func(i int, line string) int {
		if err := fluidtext.Append(scratch, line); err != nil {
			t.Fatal(err)
		}
		b.Insert(i+1, scratch.Ops[len(scratch.Ops)-1])
		return i + 1
	}
	for i := 0; i < len(b.Ops); i++ {
		op := b.Ops[i]
		if op.Role().Has(program.RoleBackward | program.RoleLoss) {
			i = add(i, fmt.Sprintf(third, op.Out("Out")))
		}
		for _, pair := range op.RoleVars() {
			if op.Role() == program.RoleBackward {
				i = add(i, strings.ReplaceAll(sums("c_allreduce_sum"), "${2}", pair[1]))
			}
		}
	}
}

// connect changes a startup program for one of some trainers.
func connect(t *testing.T, startup *program.Program, ranks int32) {
	b := startup.Global()
	if err := fluidtext.Append(b, fmt.Sprintf(`c_gen_nccl_id  -> Out=nccl_id_0 | endpoint="127.0.0.1:6170" other_endpoints=["127.0.0.1:6171"] rank=0 ring_id=0
c_comm_init X=nccl_id_0 ->  | nranks=%d rank=0 ring_id=0 device_id=-1
fill_constant -> Out=sync_var | shape=[1] value=1.0f dtype=2
c_allreduce_sum X=sync_var -> Out=sync_var | ring_id=0 use_calc_stream=true
c_sync_calc_stream X=sync_var -> Out=sync_var |
c_broadcast X=w0 -> Out=w0 | ring_id=0 root=0
broadcast x=b0 -> out=b0 | ring_id=0 root=0
c_sync_comm_stream X=w0 -> Out=w0 | ring_id=0
`, ranks)); err != nil {
		t.Fatal(err)
	}
	v, _ := b.Var("nccl_id_0")
	v.Kind, v.Persistable = program.Raw, true
}

func encoded(t *testing.T, p *program.Program) []byte {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func text(p *program.Program) string {
	var b strings.Builder
	renderProgram(&b, "program", p)
	return b.String()
}
