"""KernelBench: its run_and_check_correctness, judged by etalon.

    import kernelbench.eval
    from etalon.kernelbench import checker
    kernelbench.eval.run_and_check_correctness = checker("rmsnorm", inputs={"x": 0, "weight": "weight"}, outputs={"y": 0}, eps=1e-5, weight_offset=0)

Numbers are positions in what get_inputs returns and the model returns; names are the original model's parameters and buffers. A function of
all of these may stand for either."""
from ._bind import Binding, values


def checker(op, inputs, outputs, **how):
    """run_and_check_correctness, with KernelBench's own signature. The original model never runs; the expected answers stay in the judge's
    process."""
    binding = Binding(op, inputs, outputs, **how)

    def run_and_check_correctness(original_model_instance, new_model_instance, get_inputs_fn, metadata, num_correct_trials, verbose=False,
                                  seed=42, device=None, backend="cuda", precision=None):
        import torch
        from kernelbench import eval as bench
        if num_correct_trials < 1:
            raise ValueError("num_correct_trials must be at least 1: no trial would be no judgement")
        precision = precision or torch.float32
        torch.manual_seed(seed)
        seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(num_correct_trials)]
        original = original_model_instance.to(device=device, dtype=precision)
        model = new_model_instance.to(device=device, dtype=precision)
        passed, faults = 0, []
        for trial in seeds:
            bench.set_seed(trial)
            given = [bench._process_input_tensor(x, device, backend, precision) for x in get_inputs_fn()]
            taken = binding.take({**dict(enumerate(given)), **original.state_dict()})
            bench.set_seed(trial)
            try:
                with torch.no_grad():
                    got = model(*given)
                if device is not None and torch.device(device).type == "cuda":
                    torch.cuda.synchronize(device=device)
            except Exception as e:
                metadata = bench.register_and_format_exception("runtime_error", e, metadata, truncate=True)
                metadata["runtime_error_name"] = bench.get_error_name(e)
                return bench.KernelExecResult(compiled=True, correctness=False, metadata=metadata)
            verdict = binding.judge(taken, values(got))
            passed += verdict.passed
            if not verdict.passed:
                faults.append(f"{verdict.outcome}: " + "; ".join(verdict.reasons))
            if verbose:
                print(f"[etalon] seed {trial}\n{verdict}")
        metadata["correctness_trials"] = f"({passed} / {num_correct_trials})"
        if faults:
            metadata["correctness_issue"] = faults[0]
            metadata["correctness_issue_name"] = "correctness_issue"
        return bench.KernelExecResult(compiled=True, correctness=passed == num_correct_trials, metadata=metadata)
    return run_and_check_correctness
