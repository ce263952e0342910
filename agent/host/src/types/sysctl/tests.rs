//! In a network namespace of the test's own: its settings are not the machine's. Needs root.

use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const OWNER: ResourceId = ResourceId(Uuid::nil());

fn sysctl(key: &str, value: &str) -> Sysctl {
    Sysctl { key: key.into(), value: value.into(), on_delete: OnDelete::Restore }
}

/// Runs it in a thread with a kernel's network settings of its own.
fn apart<T: Send>(what: impl AsyncFnOnce(Sysctls, PathBuf) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let dir = TempDir::new().unwrap();
            let sysctls = Sysctls::new(Some(dir.path().to_owned()), Files::new(dir.path().to_owned()));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(what(sysctls, dir.path().to_owned()))
        });
        thread.join().unwrap()
    })
}

fn names(dir: &PathBuf) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_setting_comes_stays_and_goes() {
    apart(async |sysctls, dir| {
        let ttl = sysctl("net.ipv4.ip_default_ttl", "77");
        let before = sysctls.observe(&ttl).await.unwrap();
        assert_ne!(before.value, "77");
        assert_eq!(sysctls.check(&ttl).await.unwrap().len(), 2);
        let wanted = sysctls.wanted(&ttl);
        assert!(sysctls.reach(OWNER, &ttl, &wanted).await.unwrap());
        assert_eq!(read(&ttl).unwrap(), "77");
        let name = "99-zz-muster-net.ipv4.ip_default_ttl.conf";
        assert_eq!(names(&dir), [name]);
        assert!(fs::read_to_string(dir.join(name)).unwrap().ends_with("\nnet.ipv4.ip_default_ttl = 77\n"));
        assert!(!sysctls.reach(OWNER, &ttl, &wanted).await.unwrap(), "all is so already");
        assert_eq!(sysctls.check(&ttl).await.unwrap(), Vec::<String>::new());

        // By hand, and half done by a crash: either alone.
        write(&ttl, "78").unwrap();
        let said = sysctls.check(&ttl).await.unwrap();
        assert_eq!(said, ["net.ipv4.ip_default_ttl is '78', and should be '77'"]);
        assert!(sysctls.reach(OWNER, &ttl, &wanted).await.unwrap());
        fs::remove_file(dir.join(name)).unwrap();
        assert!(sysctls.reach(OWNER, &ttl, &wanted).await.unwrap());
        assert_eq!(sysctls.check(&ttl).await.unwrap(), Vec::<String>::new());

        sysctls.reach(OWNER, &ttl, &before).await.unwrap();
        assert_eq!((read(&ttl).unwrap(), names(&dir)), (before.value.clone(), Vec::new()));
    });
}

#[test]
fn several_numbers_are_compared_as_the_kernel_gives_them_back() {
    apart(async |sysctls, _| {
        let ports = sysctl("net.ipv4.ip_local_port_range", "20000 30000");
        assert!(sysctls.reach(OWNER, &ports, &sysctls.wanted(&ports)).await.unwrap());
        assert_eq!(read(&ports).unwrap(), "20000\t30000");
        assert_eq!(sysctls.check(&ports).await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn what_the_kernel_does_not_take_leaves_nothing() {
    apart(async |sysctls, dir| {
        let wrong = sysctl("net.ipv4.ip_default_ttl", "many");
        let fault = sysctls.reach(OWNER, &wrong, &sysctls.wanted(&wrong)).await.unwrap_err();
        assert!(fault.to_string().contains("does not let net.ipv4.ip_default_ttl be changed"), "{fault}");
        assert!(fault.is_permanent());
        for key in ["net.ipv4.no_such_setting", "net.ipv4.conf"] {
            let none = sysctl(key, "1");
            let fault = sysctls.observe(&none).await.map(drop).unwrap_err();
            assert!(fault.to_string().starts_with("the kernel has no setting net.ipv4."), "{fault}");
        }
        assert!(names(&dir).is_empty());
    });
}
