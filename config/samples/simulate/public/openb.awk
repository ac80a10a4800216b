# Turns a list of pods of Alibaba's cluster-trace-gpu-v2023 (openb_pod_list_*.csv) into a trace for `simulate`:
#
#   awk -v from=126 -f openb.awk openb_pod_list_default.csv > openb.csv
#
# `from` and `until` are days since the trace began. The LocalQueue is openb/Q for pods of QoS Q (ls, be, burstable,
# guaranteed). A pod that shares a GPU requests so many thousandths of it. Pods that were never scheduled are left out:
# the trace can't say how long they run.
BEGIN {
    FS = ","
    print "name,arrival,duration,queue,cpu,memory,nvidia.com/gpu"
}

{ sub(/\r$/, "") }

NR == 1 {
    for (i = 1; i <= NF; i++) column[$i] = i
    next
}

{
    created = $column["creation_time"]; scheduled = $column["scheduled_time"]; gpus = $column["num_gpu"]
    if (scheduled == "" || $column["deletion_time"] <= scheduled) next
    if (created < from * 86400 || (until != "" && created >= until * 86400)) next
    printf "%s,%d,%d,openb/%s,%dm,%dMi,%s\n", $column["name"], created - from * 86400,
        $column["deletion_time"] - scheduled, tolower($column["qos"]), $column["cpu_milli"], $column["memory_mib"],
        (gpus == 1 ? $column["gpu_milli"] "m" : gpus)
}
