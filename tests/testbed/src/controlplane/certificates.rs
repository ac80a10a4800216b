//! The keys of one run: a CA, the API server's certificate, a client certificate for each user,
//! the front proxy's with a CA of its own, and the key that signs service account tokens. All new
//! for every run, in the run's folder.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// The common name of the certificate that the API server shows to the servers of aggregated APIs. The same as kubeadm's.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The certificate and key files of the run.
#[derive(Debug)]
pub(crate) struct Certificates {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    ca_der: Vec<u8>,
}

impl Certificates {
    /// Makes the CA, the API server's certificate and the service account key in `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let (ca, issuer) = authority("sluice-testbed")?;
        std::fs::write(dir.join("ca.crt"), ca.pem())?;
        let ca_der = ca.der().to_vec();
        let certificates = Self {
            dir: dir.to_owned(),
            issuer,
            ca_der,
        };
        certificates.server()?;
        certificates.front_proxy()?;
        certificates.service_accounts()?;
        Ok(certificates)
    }

    /// A client certificate for a user in a group: its certificate and key file.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<(PathBuf, PathBuf)> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, &user.replace(':', "-"), &self.issuer)
    }

    /// A file of [`Certificates::create`]: `ca.crt`, `apiserver.crt`, `apiserver.key`, `front-proxy-ca.crt`,
    /// `front-proxy-client.crt`, `front-proxy-client.key`, `service-accounts.key`, `service-accounts.pub`.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// The CA's certificate, as clients need it.
    pub(crate) fn ca_der(&self) -> Vec<u8> {
        self.ca_der.clone()
    }

    fn server(&self) -> Result<()> {
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "10.0.0.1",
        ];
        let mut params = CertificateParams::new(names.map(String::from))?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, "apiserver", &self.issuer)?;
        Ok(())
    }

    /// Its CA signs nothing else: whoever has another certificate of it could name any user in a header.
    fn front_proxy(&self) -> Result<()> {
        let (ca, issuer) = authority("sluice-testbed-front-proxy")?;
        std::fs::write(self.path("front-proxy-ca.crt"), ca.pem())?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, FRONT_PROXY);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, FRONT_PROXY, &issuer)?;
        Ok(())
    }

    fn service_accounts(&self) -> Result<()> {
        let key = KeyPair::generate()?;
        std::fs::write(self.path("service-accounts.key"), key.serialize_pem())?;
        std::fs::write(self.path("service-accounts.pub"), key.public_key_pem())?;
        Ok(())
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        name: &str,
        issuer: &Issuer<'static, KeyPair>,
    ) -> Result<(PathBuf, PathBuf)> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?;
        let files = (
            self.path(&format!("{name}.crt")),
            self.path(&format!("{name}.key")),
        );
        std::fs::write(&files.0, certificate.pem())?;
        std::fs::write(&files.1, key.serialize_pem())?;
        Ok(files)
    }
}

/// The certificate of a server, as somebody else issues it, and what belongs to it: all as PEM.
#[derive(Debug)]
pub struct Issued {
    /// The certificate of its CA.
    pub ca: String,
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Issued {
    /// One for the server at this address, which was issued so long ago and ends after so long.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn new(address: IpAddr, age: Duration, left: Duration) -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let epoch = date_time_ymd(1970, 1, 1);
        let (ca, issuer) = authority("sluice-testbed-issuer")?;
        let mut params = CertificateParams::new([address.to_string()])?;
        params.not_before = epoch + now.saturating_sub(age);
        params.not_after = epoch + now.saturating_add(left);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Self {
            ca: ca.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A new CA: its certificate, and what signs with its key.
fn authority(name: &str) -> Result<(Certificate, Issuer<'static, KeyPair>)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate, Issuer::new(params, key)))
}
