//! The programs that turn public traces into traces for `kubectl sluice simulate`, and the queues that go with them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::simulate::simulate_in;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples/simulate/public")
}

/// What awk prints with a program among the samples.
fn awk(arguments: &str, stdin: &str) -> String {
    let mut awk = Command::new("awk")
        .args(arguments.split(' '))
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = awk.stdin.take().unwrap();
    input.write_all(stdin.as_bytes()).unwrap();
    drop(input);
    let output = awk.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn public_traces_become_traces() {
    // The format and the program, what comes of the lines, the queues that go with it, and how many of its jobs finish.
    let cases = [
        (
            "-f swf.awk",
            SWF,
            "name,arrival,duration,queue,count,cpu\n\
             job-1,0,3477,swf/main,4,1\n\
             job-2,90000,60,swf/queue-3,16,1\n\
             job-3,180000,1,swf/main,2,1\n",
            &[("blue.yaml", 1), ("kth.yaml", 2), ("hpc2n.yaml", 2)][..],
        ),
        (
            "-v from=1 -v until=2 -f swf.awk",
            SWF,
            "name,arrival,duration,queue,count,cpu\n\
             job-2,3600,60,swf/queue-3,16,1\n",
            &[("blue.yaml", 1)],
        ),
        (
            "-f openb.awk",
            OPENB,
            "name,arrival,duration,queue,cpu,memory,nvidia.com/gpu\n\
             pod-1,0,600,openb/ls,12000m,16384Mi,460m\n\
             pod-2,86400,300,openb/burstable,88000m,327680Mi,8\n\
             pod-3,86401,5,openb/be,500m,0Mi,0\n",
            &[("openb.yaml", 3)],
        ),
        (
            "-v from=1 -f openb.awk",
            OPENB,
            "name,arrival,duration,queue,cpu,memory,nvidia.com/gpu\n\
             pod-2,0,300,openb/burstable,88000m,327680Mi,8\n\
             pod-3,1,5,openb/be,500m,0Mi,0\n",
            &[("openb.yaml", 2)],
        ),
    ];
    for (arguments, lines, expected, plays) in cases {
        let trace = awk(arguments, lines);
        assert_eq!(trace, expected, "{arguments}");
        for (queues, finished) in plays {
            let run = simulate_in(&folder(), &format!("-f {queues} --trace - -o json"), &trace);
            assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{queues}");
            assert_eq!(run.json()["all"]["finished"], *finished, "{queues}");
        }
    }
}

/// A comment, a job that asked for no number of processors, one that asked for fewer than it got, one that never ran, one
/// that is not known to have had processors, and a second of two.
const SWF: &str = "\
; Version: 2.2
;
    1        0 192180   3477    4     -1    -1   -1  53940    -1  1  12  12  -1 -1 -1 -1 -1
    2    90000     10     60   32     -1    -1   16     -1    -1  1  13  13  -1  3 -1 -1 -1
    4   100000     10      0    2     -1    -1    2     -1    -1  5  13  13  -1 -1 -1 -1 -1
    5   100000     10     60   -1     -1    -1   -1     -1    -1  5  13  13  -1 -1 -1 -1 -1
    3   180000     10      1    2     -1    -1    2     -1    -1  1  13  13  -1 -1 -1 -1 -1
";

/// One that shares a GPU and waits for a minute, one with GPUs of its own, one without, one that was never scheduled,
/// and one that ended at once.
const OPENB: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\r
pod-1,12000,16384,1,460,,LS,Running,0,660,60\r
pod-2,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,86400,86700,86400\r
pod-3,500,0,0,0,,BE,Failed,86401,86406,86401\r
pod-4,500,0,0,0,,BE,Pending,86402,86406,\r
pod-5,500,0,0,0,,BE,Failed,86403,86403,86403\r
";
