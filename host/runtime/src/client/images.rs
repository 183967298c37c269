//! The calls of `ImageService`.

use polylet_proto::cri::*;

use super::{Client, Messages};
use crate::error::CallError;
use crate::operation::Operation;

/// Images.
impl Client {
    /// The images on the node; `image` asks for one of them only.
    pub async fn list_images(&self, image: Option<ImageSpec>) -> Result<Vec<Image>, CallError> {
        let object = image.as_ref().map_or_else(String::new, |spec| spec.image.clone());
        let request = ListImagesRequest { filter: image.map(|image| ImageFilter { image: Some(image) }) };
        let call = async |mut c: Rpc, q| c.list_images(q).await;
        self.image_call(Operation::ListImages, &object, request, call).await.map(|a| a.images)
    }

    /// As [`list_images`](Self::list_images), in several messages.
    pub async fn stream_images(&self, image: Option<ImageSpec>) -> Result<Messages<StreamImagesResponse>, CallError> {
        const OPERATION: Operation = Operation::StreamImages;
        let request = StreamImagesRequest { filter: image.map(|image| ImageFilter { image: Some(image) }) };
        let call = async |mut c: Rpc, q| c.stream_images(q).await;
        let stream = self.image_call(OPERATION, "", request, call).await?;
        Ok(Messages::new(OPERATION, stream))
    }

    /// One image; its absence is an empty answer.
    pub async fn image_status(&self, image: ImageSpec, verbose: bool) -> Result<ImageStatusResponse, CallError> {
        let object = image.image.clone();
        let request = ImageStatusRequest { image: Some(image), verbose };
        self.image_call(Operation::ImageStatus, &object, request, async |mut c, q| c.image_status(q).await).await
    }

    /// The file systems that hold images and writable layers.
    pub async fn image_fs_info(&self) -> Result<ImageFsInfoResponse, CallError> {
        let call = async |mut c: Rpc, q| c.image_fs_info(q).await;
        self.image_call(Operation::ImageFsInfo, "", ImageFsInfoRequest {}, call).await
    }

    /// Brings an image to the node; the reference that containers are created from. Takes as long as it takes.
    pub async fn pull_image(
        &self,
        image: ImageSpec,
        auth: Option<AuthConfig>,
        sandbox_config: Option<PodSandboxConfig>,
    ) -> Result<String, CallError> {
        let object = image.image.clone();
        let request = PullImageRequest { image: Some(image), auth, sandbox_config };
        let call = async |mut c: Rpc, q| c.pull_image(q).await;
        self.image_call(Operation::PullImage, &object, request, call).await.map(|a| a.image_ref)
    }

    /// Removes an image.
    pub async fn remove_image(&self, image: ImageSpec) -> Result<(), CallError> {
        let object = image.image.clone();
        let request = RemoveImageRequest { image: Some(image) };
        let call = async |mut c: Rpc, q| c.remove_image(q).await;
        self.image_call(Operation::RemoveImage, &object, request, call).await.map(drop)
    }
}

type Rpc = image_service_client::ImageServiceClient<tonic::transport::Channel>;
